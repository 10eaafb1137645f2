"""Uploads: where new bytes go, and proof that we said so. Design: lake.md L15; lakefs.md §1.7.

    data/<link epoch, 8 digits>/<random name>           what the server uploads itself
    data/<link epoch, 8 digits>/<random name>.<sign>    what a client uploads, and links later

The link epoch is in the address: a link that comes two garbage collections later is refused by the state machine. The
signature binds the address to a path of one life of a branch: a client cannot link over a path that it was not given.
"""

import asyncio
import base64
import hashlib
import hmac
import re
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Final

from penstock.kernel.errors import InvalidArgument
from penstock.lake.member.shelves import LakeShelf
from penstock.lake.records.service import Content
from penstock.plumbing.objects.port import Buffer
from penstock.plumbing.objects.summed import SummedStore
from penstock.plumbing.ports.ports import Chance

__all__ = ["LinkSigner", "data_address", "is_own_address", "link_epoch_of", "upload"]

WHOLE_BYTES_MAX: Final = 8 << 20  # held in memory and put at once; above, it is written in parts
HASH_IN_THREAD_BYTES: Final = 256 << 10
_ADDRESS: Final = re.compile(r"data/([0-9]{8})/[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)?")


def data_address(link_epoch: int, chance: Chance) -> str:
    """A new place for an object."""
    return f"data/{link_epoch:08d}/{chance.token(12).hex()}"


def link_epoch_of(address: str) -> int:
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InvalidArgument(f"{address[:200]!r} is no address of this lake", next_step="ask for one first")
    return int(found[1])


def is_own_address(address: str) -> bool:
    """Return whether the server itself wrote the object, so that it knows the MD5 of its bytes."""
    found = _ADDRESS.fullmatch(address)
    return found is not None and found[2] is None


class LinkSigner:
    """Signs addresses. Members which share the key accept each other's."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"penstock lake link\0" + secret.encode()).digest()

    def sign(self, instance: str, path: str, address: str) -> str:
        return f"{address}.{self._signature(instance, path, address)}"

    def check(self, instance: str, path: str, signed: str) -> None:
        address, _, signature = signed.rpartition(".")
        if not hmac.compare_digest(self._signature(instance, path, address), signature):
            raise InvalidArgument("this address was not given out for this path of this branch")

    def _signature(self, instance: str, path: str, address: str) -> str:
        message = "\0".join((instance, path, address)).encode("utf-8", "surrogatepass")
        digest = hmac.new(self._key, message, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest[:18]).decode()


async def upload(shelf: LakeShelf, address: str, content: Content) -> tuple[int, str]:
    """Write the bytes; how many, and their MD5 in hexadecimal digits."""
    digest = hashlib.md5(usedforsecurity=False)
    key = shelf.folder + address
    if not isinstance(content, AsyncIterable):
        await _update(digest, content)
        await shelf.data.put(key, content)
        return len(content), digest.hexdigest()
    chunks = aiter(content)
    held, is_whole = await _gather(chunks, digest)
    if is_whole:
        await shelf.data.put(key, held)
        return len(held), digest.hexdigest()
    return await _stream(shelf.data, key, held, chunks, digest), digest.hexdigest()


async def _gather(chunks: AsyncIterator[Buffer], digest: Any) -> tuple[bytes, bool]:
    """The beginning, and whether that is all."""
    parts: list[Buffer] = []
    size = 0
    async for chunk in chunks:
        await _update(digest, chunk)
        parts.append(chunk)
        size += len(chunk)
        if size > WHOLE_BYTES_MAX:
            return b"".join(parts), False
    return b"".join(parts), True


async def _stream(store: SummedStore, key: str, first: bytes, chunks: AsyncIterator[Buffer], digest: Any) -> int:
    async with store.writer(key) as writer:
        await writer.write(first)
        async for chunk in chunks:
            await _update(digest, chunk)
            await writer.write(chunk)
        return writer.size


async def _update(digest: Any, chunk: Buffer) -> None:
    if len(chunk) >= HASH_IN_THREAD_BYTES:
        await asyncio.to_thread(digest.update, chunk)  # the loop has others to serve
    else:
        digest.update(chunk)
