"""Ranges and metaranges as objects of a store. Every object read is checked against its id; work on rows is in
threads.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import polars as pl
import pyarrow as pa

from penstock.lake.core.committed.columns import joined
from penstock.lake.core.committed.entry import empty_entries
from penstock.lake.core.committed.metarange import (
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
from penstock.lake.core.committed.range import RangeId, decode_range, frame_of, read_range, table_of
from penstock.lake.member.committed.cache import Cache
from penstock.lake.member.committed.options import TreeOptions
from penstock.plumbing.objects import MANY_MAX, ObjectStore

__all__ = ["Fetched", "TreeFiles"]

T = TypeVar("T")


class TreeFiles:
    """The objects of all trees of one repository, below its storage namespace."""

    def __init__(self, store: ObjectStore, namespace: str, options: TreeOptions) -> None:
        assert not namespace or namespace.endswith("/"), namespace
        self._store = store
        self._namespace = namespace
        self._threads = ThreadPoolExecutor(options.threads_max, "penstock-trees")
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
        """Write the table of contents; its ranges must be stored already."""
        address = TreeAddress(tree.id, location)
        if tree.id != EMPTY.id:
            data = await self.in_thread(lambda: encode_metarange(tree))
            key = metarange_key(location, tree.id)
            await self.write({key: data})
            self.metaranges.put(key, tree)
        return address

    async def entries(self, found: Range) -> pl.DataFrame:
        """Return the entries of a range, and cache them for the next reader."""
        return await self.ranges.get(found.id, lambda: self._read_range(found))

    async def scan(self, found: Range) -> pl.DataFrame:
        """The entries of a range, for work which passes over many of them once and must not crowd out the others."""
        held = self.ranges.peek(found.id)
        return held if held is not None else await self._read_range(found)

    async def fetch(self, ranges: Sequence[Range]) -> "Fetched":
        """Read some ranges, as `scan` does, but decode nothing yet."""
        parts: dict[RangeId, pl.DataFrame | memoryview] = {}
        missing = []
        for each in ranges:
            held = self.ranges.peek(each.id)
            if held is None:
                missing.append(each)
            else:
                parts[each.id] = held
        for start in range(0, len(missing), MANY_MAX):
            some = missing[start : start + MANY_MAX]
            found = await self._store.get_many([self._namespace + range_key(each.location, each.id) for each in some])
            parts.update((each.id, one.data) for each, one in zip(some, found, strict=True))
        return Fetched([(each.id, parts[each.id]) for each in ranges])

    async def _read_range(self, found: Range) -> pl.DataFrame:
        data = await self._read(range_key(found.location, found.id))
        return await self.in_thread(lambda: decode_range(data, found.id))

    async def _read(self, key: str) -> memoryview:
        return (await self._store.get(self._namespace + key)).data

    async def write(self, objects: Mapping[str, memoryview]) -> None:
        """Store objects. Repeating it is harmless: a key says what must be in it."""
        todo = [(self._namespace + key, data) for key, data in objects.items()]
        for start in range(0, len(todo), MANY_MAX):
            async with self._writes:
                await self._store.put_many(dict(todo[start : start + MANY_MAX]))


class Fetched:
    """Ranges which were read or held, in order. Call its methods in a thread: they do all the work on the ranges.

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
        """Return the entries of all, one after the other."""
        return frame_of(joined(self.tables())) if self._parts else empty_entries()


def _frame_bytes(frame: pl.DataFrame) -> int:
    return int(frame.estimated_size()) + 1


def _metarange_bytes(tree: MetaRange) -> int:
    return 3 * _frame_bytes(tree.frame)  # with the lists of keys which lookups make
