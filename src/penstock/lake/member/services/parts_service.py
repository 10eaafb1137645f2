"""Uploads in parts whose address was given out before: the parts wait in scratch, the end makes one object of them.

    scratch/s3/<id>/parts/00007     a part: the name of its bytes, their size and MD5; the last one under a number wins
    scratch/s3/<id>/data/…          the bytes of parts

The sweep of scratch takes unfinished uploads. The object is at its address when `finish` returns, and shows
nowhere before it is linked.
"""

import hashlib
import re
from collections.abc import AsyncIterable, Sequence
from typing import Final

import msgspec

from penstock.kernel.bounds import Count, Name, Size
from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.lake.member.engine import Engine
from penstock.lake.member.services.uploads import LinkSigner, upload
from penstock.lake.member.shelves import LakeShelf
from penstock.plumbing.objects.port import Buffer

__all__ = ["PARTS_MAX", "PartUploads"]

FOLDER: Final = "scratch/s3/"
PARTS_MAX: Final = 10_000
_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


class _Part(msgspec.Struct, frozen=True):
    number: Count
    size: Size
    etag: Name
    data: Name


class PartUploads:
    """The part of the service which takes bytes at addresses that it gave out."""

    engine: Engine
    signer: LinkSigner

    async def upload_to(
        self, repository: str, branch: str, path: str, address: str, content: AsyncIterable[Buffer]
    ) -> tuple[int, str]:
        """Write the bytes of a two-phase upload; return their number and MD5."""
        shelf, inside = await self._place(repository, branch, path, address)
        return await upload(shelf, inside, content)

    async def begin_parts(self, repository: str, branch: str, path: str) -> str:
        """Return the id of a new upload in parts."""
        await self.engine.branch_to_write(repository, branch)
        return self.engine.ports.chance.token(16).hex()

    async def put_part(
        self, repository: str, branch: str, id_: str, number: int, content: AsyncIterable[Buffer]
    ) -> str:
        """Write a part and return its ETag."""
        if not _ID.fullmatch(id_) or not 1 <= number <= PARTS_MAX:
            raise InvalidArgument(f"a part has an upload's id and a number from 1 to {PARTS_MAX}")
        await self.engine.branch_to_write(repository, branch)
        store, md5 = self.engine.shelves.store, hashlib.md5(usedforsecurity=False)
        data = f"{FOLDER}{id_}/data/{self.engine.ports.chance.token(16).hex()}"
        async with store.writer(data) as writer:
            async for chunk in content:
                md5.update(chunk)
                await writer.write(chunk)
        part = _Part(number, writer.size, md5.hexdigest(), data)
        await store.put(f"{FOLDER}{id_}/parts/{number:05d}", msgspec.json.encode(part))
        return part.etag

    async def finish_parts(
        self, repository: str, branch: str, path: str, id_: str, address: str, parts: Sequence[tuple[int, str]]
    ) -> tuple[int, str]:
        """Write the parts, in order, as the object at the address; return its size and ETag."""
        shelf, inside = await self._place(repository, branch, path, address)
        chosen = [await self._part(id_, number, etag) for number, etag in sorted(parts)]
        if not chosen:
            raise InvalidArgument("an upload in parts has at least one part")
        async with shelf.data.writer(shelf.folder + inside) as writer:
            for part in chosen:
                if part.size:
                    async with shelf.store.reader(part.data) as reader:
                        async for chunk in reader:
                            await writer.write(chunk)
        digests = b"".join(bytes.fromhex(part.etag) for part in chosen)
        return writer.size, f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(chosen)}"

    async def drop_parts(self, id_: str) -> None:
        """Drop the parts of an upload."""
        if not _ID.fullmatch(id_):
            raise NotFound("there is no such upload", kind="upload")
        store = self.engine.shelves.store
        async for page in store.list(f"{FOLDER}{id_}/"):
            await store.delete(*(meta.key for meta in page.objects))

    async def _part(self, id_: str, number: int, etag: str) -> _Part:
        try:
            if not _ID.fullmatch(id_):
                raise NotFound("no id")
            stored = await self.engine.shelves.store.get(f"{FOLDER}{id_}/parts/{number:05d}")
        except NotFound:
            raise NotFound(
                f"part {number} was not uploaded", kind="part", next_step="upload it, then complete"
            ) from None
        part = msgspec.json.decode(stored.data, type=_Part)
        if part.etag != etag.strip('"'):
            raise InvalidArgument(f"part {number} has another ETag, {part.etag}", next_step="upload it again")
        return part

    async def _place(self, repository: str, branch: str, path: str, address: str) -> tuple[LakeShelf, str]:
        """Return the shelf and the address in it, if it was given out for this path."""
        found, known = await self.engine.branch_to_write(repository, branch)
        shelf = self.engine.shelves.of(found)
        inside = shelf.relative(address)
        if inside is None:
            raise InvalidArgument(f"link address invalid: {address[:200]!r}", next_step="ask for an address first")
        self.signer.check(known.instance, path, inside)
        return shelf, inside
