"""Objects with sums: no byte of them is used before its block was compared. Design: integrity.md D5, D6.

    KEY                          the object, above 256 KiB
    .penstock/sums/KEY           a CRC-32C for each 64 KiB of it, as it is stored (`files/sums.py`)

For keys whose objects never change. Sums are written before the object and deleted after it. A smaller object has none:
it is read whole, and the digest of its content is compared, if the caller knows one. An object without sums, of an
older release or of another program, is read whole once, and then gets them. Without a digest it is served as it is.

If a block does not match, the object may be damaged, or its sums. The digest decides, where one is known: sums that are
wrong are replaced, and a damaged object is `DataDamaged` with the block. The bytes before it have been given.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final

from penstock.kernel.errors import DataDamaged, NotFound, PenstockError
from penstock.plumbing.files.sums import (
    SUMS_VERSION,
    BlockSums,
    Comparing,
    Summing,
    decode_sums,
    encode_sums,
    subject_of,
    version_of_sums,
)
from penstock.plumbing.objects.keys import SumsKey
from penstock.plumbing.objects.known import KnownContent
from penstock.plumbing.objects.port import Buffer, ETag, ObjectStore, ObjectWriter
from penstock.plumbing.objects.threads import all_of
from penstock.plumbing.process.logs import get_logger

__all__ = ["SMALL_BYTES_MAX", "SummedStore", "gathered"]

SMALL_BYTES_MAX: Final = 256 << 10
AT_ONCE_BYTES_MAX: Final = 1 << 20  # asked for with one request
CACHE_BYTES_MAX: Final = 16 << 20  # of sums
log = get_logger()


class SummedStore:
    """One store, which stays the caller's to close."""

    def __init__(self, store: ObjectStore, *, is_read_only: bool = False) -> None:
        """With `is_read_only`, reads write no sums."""
        self.store = store
        self._is_read_only = is_read_only
        self._cache: OrderedDict[str, BlockSums] = OrderedDict()
        self._cached_bytes = 0
        self._building: dict[str, asyncio.Lock] = {}

    # Writing

    async def put(self, key: str, data: Buffer, *, if_absent: bool = False, digest: bytes = b"") -> ETag:
        """Store an object whole; return its ETag.

        With `if_absent` others may list it at once, so its sums come first. Else no reader knows it before this call
        returns, and both are stored together.
        """
        if len(data) <= SMALL_BYTES_MAX:
            return await self.store.put(key, data, if_absent=if_absent)
        summing = Summing()
        summing.add(data)
        if if_absent:
            await self._save(key, summing.sums, digest)
            return await self.store.put(key, data, if_absent=True)
        sums = encode_sums(summing.sums, subject_of(key, digest))
        self._forget(key)
        etag, _ = await all_of((self.store.put(key, data), self.store.put(SumsKey.of(key), sums)))
        return etag

    @asynccontextmanager
    async def writer(self, key: str, *, digest: bytes = b"") -> AsyncIterator[ObjectWriter]:
        """Write an object of any size in parts. Its sums are written before it appears."""
        async with self.store.writer(key) as writer:
            summed = _SummedWriter(writer)
            yield summed
            if summed.summing.size > SMALL_BYTES_MAX and not summed.is_aborted:
                await self._save(key, summed.summing.sums, digest)

    async def delete(self, *keys: str) -> None:
        """Remove objects, then their sums."""
        await self.store.delete(*keys)
        for key in keys:
            self._forget(key)
        await self.store.delete(*(SumsKey.of(key) for key in keys))

    async def copy(self, source: str, target: str) -> None:
        """Store an object under another key too, with its sums."""
        found = await self._load(source, b"")
        if found is not None:
            await self._save(target, found, b"")
        await self.store.copy(source, target)

    # Reading

    async def read(
        self, key: str, start: int, end: int, *, size: int | None = None, known: KnownContent | None = None
    ) -> AsyncGenerator[memoryview, None]:
        """Yield the bytes [start, end), each after its block was compared. `size` is that of the whole object."""
        if size is None:
            size = (await self.store.head(key)).size
        end = min(end, size)
        if size <= SMALL_BYTES_MAX:
            data = await self._small(key, start, end, size, known)
            if data:
                yield data
            return
        sums = await self.sums_of(key, size, known)
        if sums is None:
            async with aclosing(self._unsummed(key, start, end, size)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        try:
            async with aclosing(self._compared(key, start, end, sums)) as chunks:
                async for chunk in chunks:
                    start += len(chunk)
                    yield chunk
            return
        except DataDamaged as damage:
            sums = await self._healed(key, size, known, damage)
        async with aclosing(self._compared(key, start, end, sums)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def get(
        self, key: str, start: int, end: int, *, size: int | None = None, known: KnownContent | None = None
    ) -> memoryview:
        """Return the bytes [start, end) in one piece."""
        return await gathered(self.read(key, start, end, size=size, known=known))

    async def _small(self, key: str, start: int, end: int, size: int, known: KnownContent | None) -> memoryview:
        if known is None:
            return (await self.store.get(key, start, end)).data if start < end else memoryview(b"")
        data = (await self.store.get(key)).data
        if len(data) != size:
            raise _other_size(key, len(data), size)
        check = known.check()
        check.add(data)
        check.finish()
        return data[start:end]

    async def _unsummed(self, key: str, start: int, end: int, size: int) -> AsyncGenerator[memoryview, None]:
        """Yield bytes of which nothing is known. A read of all of them makes their sums."""
        summing = Summing() if (start, end) == (0, size) else None
        async with self.store.reader(key, start, end) as reader:
            async for chunk in reader:
                if summing is not None:
                    summing.add(chunk)
                yield chunk
        if summing is not None and summing.size == size:
            with suppress(PenstockError):  # a reader need not be allowed to write
                await self._save(key, summing.sums, b"")

    async def _compared(self, key: str, start: int, end: int, sums: BlockSums) -> AsyncGenerator[memoryview, None]:
        first, behind = sums.widened(start, end)
        comparing = Comparing(sums, first, key)
        at = first
        async with aclosing(self._chunks(key, first, behind)) as chunks:
            async for chunk in chunks:
                for piece in comparing.feed(chunk):
                    wanted = piece[max(0, start - at) : max(0, end - at)]
                    at += len(piece)
                    if wanted:
                        yield wanted
        comparing.finish(behind)

    async def _chunks(self, key: str, start: int, end: int) -> AsyncGenerator[memoryview, None]:
        if end - start <= AT_ONCE_BYTES_MAX:
            if start < end:
                yield (await self.store.get(key, start, end)).data
            return
        async with self.store.reader(key, start, end) as reader:
            async for chunk in reader:
                yield chunk

    # Sums

    async def sums_of(self, key: str, size: int, known: KnownContent | None = None) -> BlockSums | None:
        """Return the sums of an object. If it has none: make them, after its content was compared; None if nothing is
        known of its content.
        """
        digest = known.digest if known is not None else b""
        found = self._cache.get(key) or await self._load(key, digest)
        if found is not None and found.size == size:
            return found
        return await self.build(key, size, known) if known is not None else None

    async def build(self, key: str, size: int, known: KnownContent | None) -> BlockSums:
        """Read an object whole, compare its content, and write its sums. `DataDamaged`: it is not that content."""
        lock = self._building.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                found = self._cache.get(key)
                if found is not None and found.size == size:
                    return found  # another reader was faster
                return await self._build(key, size, known)
        finally:
            if not lock.locked():
                self._building.pop(key, None)

    async def _build(self, key: str, size: int, known: KnownContent | None) -> BlockSums:
        summing, check = Summing(), known.check() if known is not None else None
        async with self.store.reader(key) as reader:
            async for chunk in reader:
                summing.add(chunk)
                if check is not None:
                    check.add(chunk)
                await asyncio.sleep(0)  # others have their turn
        if summing.size != size:
            raise _other_size(key, summing.size, size)
        if check is not None:
            check.finish()
        sums, digest = summing.sums, known.digest if known is not None else b""
        if await self._may_replace(key):
            with suppress(PenstockError):
                await self._save(key, sums, digest)
        self._remember(key, sums)
        log.info("sums made", object=key, bytes=size)
        return sums

    async def _healed(self, key: str, size: int, known: KnownContent | None, damage: DataDamaged) -> BlockSums:
        """Return new sums if the object is right, and its sums were wrong; else raise the damage."""
        self._forget(key)
        if known is None:
            raise damage
        try:
            sums = await self.build(key, size, known)
        except DataDamaged:
            raise damage from None
        log.error("sums of an object were wrong and are replaced", object=key, reason=damage.message)
        return sums

    async def _may_replace(self, key: str) -> bool:
        """Return whether the sums in the store may be written over: not those of a newer release."""
        try:
            data = bytes((await self.store.get(SumsKey.of(key))).data)
        except PenstockError:
            return True
        version = version_of_sums(data)
        if version is None or version <= SUMS_VERSION:
            log.error("sums of an object cannot be used and are replaced", object=key, sums=SumsKey.of(key))
            return True
        log.warning("sums of an object are of a newer release", object=key, version=version)
        return False

    async def _load(self, key: str, digest: bytes) -> BlockSums | None:
        try:
            data = bytes((await self.store.get(SumsKey.of(key))).data)
        except NotFound:
            return None
        found = decode_sums(data, subject_of(key, digest))
        if found is not None:
            self._remember(key, found)
        return found

    async def _save(self, key: str, sums: BlockSums, digest: bytes) -> None:
        self._forget(key)
        if self._is_read_only:
            return
        await self.store.put(SumsKey.of(key), encode_sums(sums, subject_of(key, digest)))

    def _remember(self, key: str, sums: BlockSums) -> None:
        self._forget(key)
        self._cache[key] = sums
        self._cached_bytes += len(sums.crcs)
        while self._cached_bytes > CACHE_BYTES_MAX:
            self._cached_bytes -= len(self._cache.popitem(last=False)[1].crcs)

    def _forget(self, key: str) -> None:
        old = self._cache.pop(key, None)
        if old is not None:
            self._cached_bytes -= len(old.crcs)


class _SummedWriter:
    """Sums the bytes on their way to a writer."""

    def __init__(self, writer: ObjectWriter) -> None:
        self.summing = Summing()
        self.is_aborted = False
        self._writer = writer

    @property
    def size(self) -> int:
        return self._writer.size

    async def write(self, data: Buffer) -> None:
        self.summing.add(data)
        await self._writer.write(data)

    async def abort(self) -> None:
        self.is_aborted = True
        await self._writer.abort()


async def gathered(chunks: AsyncGenerator[memoryview, None]) -> memoryview:
    """Return all bytes of a read in one piece."""
    async with aclosing(chunks):
        pieces = [chunk async for chunk in chunks]
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))


def _other_size(key: str, found: int, expected: int) -> DataDamaged:
    return DataDamaged(
        f"{key} has {found} bytes, expected {expected}",
        next_step="restore the object from a copy",
        object=key,
        begin=min(found, expected),
        end=max(found, expected),
    )
