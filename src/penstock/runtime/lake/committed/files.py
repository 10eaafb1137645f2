"""Ranges and metaranges as objects of a store. What is read is checked against its id; work on rows is in threads."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import TypeVar

import polars as pl
import pyarrow as pa

from penstock.lake.committed.entry import empty_entries
from penstock.lake.committed.metarange import (
    EMPTY,
    Location,
    MetaRange,
    Range,
    TreeAddress,
    decode_metarange,
    encode_metarange,
    metarange_key,
    range_key,
)
from penstock.lake.committed.range import RangeId, decode_range, frame_of, joined, read_range, table_of
from penstock.runtime.lake.committed.cache import Cache
from penstock.runtime.lake.committed.in_order import in_order
from penstock.runtime.lake.committed.options import TreeOptions
from penstock.runtime.objectstore import ObjectStore

__all__ = ["Fetched", "TreeFiles"]

T = TypeVar("T")


class TreeFiles:
    """The objects of all trees of one repository, below its storage namespace."""

    def __init__(self, store: ObjectStore, namespace: str, options: TreeOptions) -> None:
        assert not namespace or namespace.endswith("/"), namespace
        self._store = store
        self._namespace = namespace
        self._threads = ThreadPoolExecutor(options.threads_max, "penstock-trees")
        self._reads_in_flight_max = options.reads_in_flight_max
        self._writes = asyncio.Semaphore(options.writes_in_flight_max)
        # A tenth for the tables of contents: without them no range is found.
        self.metaranges: Cache[MetaRange] = Cache(options.cache_bytes_max // 10, _metarange_bytes)
        self.ranges: Cache[pl.DataFrame] = Cache(options.cache_bytes_max * 9 // 10, _frame_bytes)

    async def close(self) -> None:
        await self.metaranges.close()
        await self.ranges.close()
        await asyncio.to_thread(self._threads.shutdown)

    def in_thread(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run work on rows, which lets go of the interpreter for most of its time."""
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def open(self, address: TreeAddress) -> MetaRange:
        """The table of contents of a tree."""
        if address.id == EMPTY.id:
            return EMPTY
        # Not by id alone: an equal tree elsewhere refers to other locations, which may be garbage while these are not.
        key = metarange_key(address.location, address.id)
        return await self.metaranges.get(key, lambda: self._read_metarange(address))

    async def _read_metarange(self, address: TreeAddress) -> MetaRange:
        data = await self._read(metarange_key(address.location, address.id))
        return await self.in_thread(lambda: decode_metarange(data, address.id))

    async def save(self, tree: MetaRange, location: Location) -> TreeAddress:
        """Write the table of contents; its ranges must be there already."""
        address = TreeAddress(tree.id, location)
        if tree.id != EMPTY.id:
            data = await self.in_thread(lambda: encode_metarange(tree))
            key = metarange_key(location, tree.id)
            await self.write(key, data)
            self.metaranges.put(key, tree)
        return address

    async def entries(self, found: Range) -> pl.DataFrame:
        """The entries of a range, for somebody who is likely to come again."""
        return await self.ranges.get(found.id, lambda: self._read_range(found))

    async def scan(self, found: Range) -> pl.DataFrame:
        """The entries of a range, for work which passes over many of them once and must not crowd out the others."""
        held = self.ranges.peek(found.id)
        return held if held is not None else await self._read_range(found)

    async def fetch(self, ranges: Sequence[Range]) -> "Fetched":
        """Read some ranges, as `scan` does, but decode nothing yet."""
        async with aclosing(in_order(ranges, self._fetch_one, self._reads_in_flight_max)) as reads:
            return Fetched([part async for part in reads])

    async def _fetch_one(self, found: Range) -> "tuple[RangeId, pl.DataFrame | memoryview]":
        held = self.ranges.peek(found.id)
        return found.id, held if held is not None else await self._read(range_key(found.location, found.id))

    async def _read_range(self, found: Range) -> pl.DataFrame:
        data = await self._read(range_key(found.location, found.id))
        return await self.in_thread(lambda: decode_range(data, found.id))

    async def _read(self, key: str) -> memoryview:
        return (await self._store.get(self._namespace + key)).data

    async def write(self, key: str, data: memoryview) -> None:
        """Store one object. Repeating it is harmless: the key says what must be in it."""
        async with self._writes:
            await self._store.put(self._namespace + key, data)


class Fetched:
    """Ranges which were read or held, in order. Call its methods in a thread, which does all there is to do with them.

    So nothing waits for the event loop between a file and the rows in it.
    """

    def __init__(self, parts: "list[tuple[RangeId, pl.DataFrame | memoryview]]") -> None:
        self._parts = parts

    def tables(self) -> list[pa.Table]:
        """The entries of each."""
        return [
            table_of(part) if isinstance(part, pl.DataFrame) else read_range(part, name) for name, part in self._parts
        ]

    def entries(self) -> pl.DataFrame:
        """The entries of all, one behind the other."""
        return frame_of(joined(self.tables())) if self._parts else empty_entries()


def _frame_bytes(frame: pl.DataFrame) -> int:
    return int(frame.estimated_size()) + 1


def _metarange_bytes(tree: MetaRange) -> int:
    return 3 * _frame_bytes(tree.frame)  # with the lists of keys which lookups make
