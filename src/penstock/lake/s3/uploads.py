"""Uploads in parts, staged in a store's scratch folder and composed when they are complete.

    scratch/s3/ID/upload         what the object will be
    scratch/s3/ID/parts/00007    a part: where its bytes are, their size and MD5; the last one put under a number wins
    scratch/s3/ID/data/…         the bytes of parts
    scratch/s3/ID/done           the ETag of the finished object: a repeated completion gets the same answer

An upload is known by its id to any process on the same store, and survives all of them. Uploads that are never
completed or aborted go when the scratch folder is swept.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

import msgspec

from penstock.kernel.bounds import Count, Metadata, Name, Paragraph, Size
from penstock.kernel.errors import NotFound
from penstock.lake.s3.protocol.faults import fault
from penstock.plumbing.objects.port import Buffer, ObjectStore
from penstock.plumbing.ports.ports import Ports, system_ports

__all__ = ["PARTS_MAX", "PART_BYTES_MIN", "Part", "S3Upload", "Uploads", "composed_etag"]

FOLDER: Final = "scratch/s3/"
PARTS_MAX: Final = 10_000
PART_BYTES_MIN: Final = 5 << 20  # but for the last
READS_AT_ONCE: Final = 32

_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


class S3Upload(msgspec.Struct, frozen=True):
    """An upload which was begun."""

    id: Name
    bucket: Name
    key: Name
    started: datetime
    content_type: Paragraph = ""
    metadata: Metadata = {}


class Part(msgspec.Struct, frozen=True):
    """A stored part."""

    number: Count
    size: Size
    etag: Name
    modified: datetime
    data: Name


class Uploads:
    """All uploads in one store."""

    def __init__(self, store: ObjectStore, ports: Ports | None = None) -> None:
        self._store = store
        self._ports = ports or system_ports()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._ports.clock.time_ns() / 1e9, UTC)

    async def begin(self, bucket: str, key: str, content_type: str, metadata: Mapping[str, str]) -> S3Upload:
        upload = S3Upload(self._ports.chance.token(16).hex(), bucket, key, self._now(), content_type, dict(metadata))
        await self._store.put(_path(upload.id, "upload"), msgspec.json.encode(upload))
        return upload

    async def find(self, id: str, bucket: str, key: str) -> S3Upload:
        """The upload, if it is one of this key."""
        try:
            if not _ID.fullmatch(id):
                raise NotFound("no id")
            stored = await self._store.get(_path(id, "upload"))
        except NotFound:
            raise fault("NoSuchUpload", "there is no such upload: it was completed, aborted, or never begun") from None
        upload = msgspec.json.decode(stored.data, type=S3Upload)
        if (upload.bucket, upload.key) != (bucket, key):
            raise fault("NoSuchUpload", "this upload is one of another key")
        return upload

    async def finished_etag(self, upload: S3Upload) -> str | None:
        """The ETag of the object, if the upload was completed before."""
        try:
            return str((await self._store.get(_path(upload.id, "done"))).data, "ascii")
        except NotFound:
            return None

    async def put_part(self, upload: S3Upload, number: int, content: AsyncIterable[Buffer]) -> Part:
        if not 1 <= number <= PARTS_MAX:
            raise fault("InvalidArgument", f"a part's number is between 1 and {PARTS_MAX}")
        data, md5 = _path(upload.id, f"data/{self._ports.chance.token(16).hex()}"), hashlib.md5(usedforsecurity=False)
        async with self._store.writer(data) as writer:
            async for chunk in content:
                md5.update(chunk)
                await writer.write(chunk)
        part = Part(number, writer.size, md5.hexdigest(), self._now(), data)
        await self._store.put(_path(upload.id, f"parts/{number:05d}"), msgspec.json.encode(part))
        return part

    async def parts(self, upload: S3Upload) -> list[Part]:
        """Return the parts by number."""
        pages = self._store.list(_path(upload.id, "parts/"))
        keys = [meta.key async for page in pages for meta in page.objects]
        found: list[Part] = []
        for at in range(0, len(keys), READS_AT_ONCE):
            read = await asyncio.gather(*(self._store.get(key) for key in keys[at : at + READS_AT_ONCE]))
            found += [msgspec.json.decode(one.data, type=Part) for one in read]
        return found

    async def choose(self, upload: S3Upload, wanted: Sequence[tuple[int, str]]) -> list[Part]:
        """The parts a completion names by number and ETag, if they can be composed."""
        if not wanted:
            raise fault("MalformedXML", "a completion names at least one part")
        numbers = [number for number, _ in wanted]
        if any(left >= right for left, right in pairwise(numbers)):
            raise fault("InvalidPartOrder", "parts must be named in ascending order")
        there = {part.number: part for part in await self.parts(upload)}
        for number, etag in wanted:
            if number not in there or there[number].etag != etag:
                raise fault("InvalidPart", f"there is no part {number} with this ETag")
        chosen = [there[number] for number in numbers]
        small = [part.number for part in chosen[:-1] if part.size < PART_BYTES_MIN]
        if small:
            raise fault("EntityTooSmall", f"part {small[0]} is smaller than {PART_BYTES_MIN} bytes, and not the last")
        return chosen

    async def content(self, parts: Sequence[Part]) -> AsyncGenerator[memoryview, None]:
        """The bytes of the parts, one after the other."""
        for part in parts:
            if part.size:
                async with self._store.reader(part.data) as reader:
                    async for chunk in reader:
                        yield chunk

    async def finish(self, upload: S3Upload, etag: str) -> None:
        """Finish an upload whose object exists: keep its ETag for repeated requests, and drop the parts."""
        await self._store.put(_path(upload.id, "done"), etag.encode("ascii"))
        for folder in ("parts/", "data/"):
            await self._drop(_path(upload.id, folder))

    async def abort(self, upload: S3Upload) -> None:
        await self._store.delete(_path(upload.id, "upload"))
        await self._drop(_path(upload.id, ""))

    async def under_way(self, bucket: str, prefix: str, limit: int) -> list[S3Upload]:
        """Uploads of a bucket which are neither completed nor aborted, by key."""
        found: list[S3Upload] = []
        async for page in self._store.list(FOLDER, delimiter="/"):
            for folder in page.folders:
                try:
                    stored = await self._store.get(f"{folder}upload")
                except NotFound:
                    continue
                upload = msgspec.json.decode(stored.data, type=S3Upload)
                if upload.bucket == bucket and upload.key.startswith(prefix):
                    found.append(upload)
        unfinished = [one for one in sorted(found, key=_order) if await self.finished_etag(one) is None]
        return unfinished[:limit]

    async def _drop(self, folder: str) -> None:
        async for page in self._store.list(folder):
            await self._store.delete(*(meta.key for meta in page.objects))


def composed_etag(parts: Sequence[Part]) -> str:
    """Return the ETag by S3's rule: the MD5 of the parts' MD5s, and their number."""
    digests = b"".join(bytes.fromhex(part.etag) for part in parts)
    return f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"


def _path(id: str, name: str) -> str:
    return f"{FOLDER}{id}/{name}"


def _order(upload: S3Upload) -> tuple[str, datetime]:
    return upload.key, upload.started
