"""Trees of both formats as objects of a store. Every read is checked against its id; work on rows is in threads."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import TypeVar

import msgspec
import polars as pl
import pyarrow as pa

from penstock.kernel.formats import LAKE_TREE, check_version
from penstock.lake.core.committed.columns import joined, rows_of
from penstock.lake.core.committed.contents import Contents
from penstock.lake.core.committed.entry import empty_entries
from penstock.lake.core.committed.leaves.node import LEAF_SCHEMA, Leaf, Leaves
from penstock.lake.core.committed.leaves.root import Nodes, Root, decode_root
from penstock.lake.core.committed.metarange import (
    EMPTY,
    MetaRange,
    Range,
    TreeAddress,
    decode_metarange,
    metarange_key,
    range_key,
    tree_key,
)
from penstock.lake.core.committed.range import RangeId, compact, decode_range, frame_of, read_range, table_of
from penstock.lake.member.committed.cache import Cache
from penstock.lake.member.committed.options import TreeOptions
from penstock.lake.member.committed.packs import FetchedLeaves, FetchedNodes, PackFiles
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
        self.ranges: Cache[pl.DataFrame] = Cache(options.cache_bytes_max * 6 // 10, _frame_bytes)
        self.roots: Cache[Root] = Cache(options.cache_bytes_max // 10, _root_bytes)
        # with the lists of keys that readers make
        self.nodes: Cache[Leaves] = Cache(options.cache_bytes_max // 10, lambda leaves: 4 * _frame_bytes(leaves.frame))
        self.packs = PackFiles(store, namespace, options.cache_bytes_max // 10)

    async def close(self) -> None:
        await self.metaranges.close()
        await self.ranges.close()
        await self.roots.close()
        await self.nodes.close()
        await self.packs.footers.close()
        await asyncio.to_thread(self._threads.shutdown)

    def in_thread(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run work on rows, which lets go of the interpreter for most of its time."""
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def open(self, address: TreeAddress) -> MetaRange | Root:
        """Return what a tree begins with: its ranges, or its nodes."""
        if address.id == EMPTY.id:
            return EMPTY
        check_version(LAKE_TREE, address.format, f"tree {address.id}")
        if address.format == 3:
            return await self.roots.get(tree_key(address), lambda: self._read_root(address))
        # Not by id alone: an equal tree elsewhere refers to other locations, which may be garbage while these are not.
        key = metarange_key(address.location, address.id)
        return await self.metaranges.get(key, lambda: self._read_metarange(address))

    async def _read_metarange(self, address: TreeAddress) -> MetaRange:
        data = await self._read(metarange_key(address.location, address.id))
        return await self.in_thread(lambda: decode_metarange(data, address.id))

    async def _read_root(self, address: TreeAddress) -> Root:
        data = await self._read(tree_key(address))
        return await self.in_thread(lambda: decode_root(data, address.id))

    async def leaves(self, nodes: Nodes) -> Leaves:
        """Return the leaves of some nodes, in order."""
        each = await self.leaves_of_each(nodes)
        if len(each) == 1:
            return each[0]
        return Leaves(pl.concat([Leaves.empty().frame, *[leaves.frame for leaves in each]]))

    async def leaves_at(self, nodes: Nodes, row: int) -> Leaves:
        """Return the leaves of one node: what the cache holds, with the lists of keys that earlier readers made."""
        held = self.nodes.peek(_node_name(*nodes.places[row]))
        return (await self.leaves_of_each(nodes.of([row])))[0] if held is None else held

    async def leaves_of_each(self, nodes: Nodes) -> list[Leaves]:
        """Return the leaves of each of some nodes."""
        places = nodes.places
        held: dict[tuple[str, str, int], Leaves | None] = {
            place: self.nodes.peek(_node_name(*place)) for place in places
        }
        missing = [place for place in places if held[place] is None]
        if missing:
            fetched = FetchedNodes(missing, await self.packs.fetch((key, group) for _, key, group in missing))
            for place, leaves in zip(missing, await self.in_thread(fetched.leaves), strict=True):
                self.nodes.put(_node_name(*place), leaves)
                held[place] = leaves
        return [found for place in places if (found := held[place]) is not None]

    async def all_parts(self, tree: MetaRange | Root) -> MetaRange | Leaves:
        """Return all ranges, or all leaves, of a tree."""
        return await self.leaves(tree.nodes) if isinstance(tree, Root) else tree

    async def entries(self, found: Range | Leaf) -> pl.DataFrame:
        """Return the entries of a range or a leaf, and keep them in the cache."""
        return await self.ranges.get(found.id, lambda: self._read_part(found))

    async def entries_of_each(self, parts: Sequence[Range | Leaf]) -> list[pl.DataFrame]:
        """Return the entries of several ranges or leaves, and keep them in the cache. Leaves are read at once."""
        held = {each.id: self.ranges.peek(each.id) for each in parts}
        missing = [each for each in parts if held[each.id] is None]
        leaves = [each for each in missing if isinstance(each, Leaf)]
        if leaves:
            rows = [msgspec.structs.astuple(each) for each in leaves]
            fetched = await self.fetch_parts(Leaves(pl.DataFrame(rows, schema=LEAF_SCHEMA, orient="row")))
            frames = await self.in_thread(lambda: _divided(fetched.entries(), fetched.counts))
            for leaf, entries in zip(leaves, frames, strict=True):
                self.ranges.put(leaf.id, entries)
                held[leaf.id] = entries
        for each in missing:
            if isinstance(each, Range):
                held[each.id] = await self.entries(each)
        return [frame for each in parts if (frame := held[each.id]) is not None]

    async def scan(self, found: Range) -> pl.DataFrame:
        """The entries of a range, for work which passes over many of them once and must not crowd out the others."""
        held = self.ranges.peek(found.id)
        return held if held is not None else await self._read_range(found)

    async def _read_part(self, found: Range | Leaf) -> pl.DataFrame:
        if isinstance(found, Range):
            return await self._read_range(found)
        one = Leaves(pl.DataFrame([msgspec.structs.astuple(found)], schema=LEAF_SCHEMA, orient="row"))
        fetched = await self.fetch_parts(one)
        return compact(await self.in_thread(fetched.entries))

    async def fetch_parts(self, parts: Contents) -> "Fetched | FetchedLeaves":
        """Read ranges or leaves, but decode nothing yet."""
        if isinstance(parts, Leaves):
            places = dict.fromkeys(rows_of(parts.frame, "pack", "group"))
            return FetchedLeaves(parts, await self.packs.fetch(places))
        assert isinstance(parts, MetaRange)
        return await self.fetch([parts[row] for row in range(len(parts))])

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
        return Fetched([(each.id, parts[each.id]) for each in ranges], [each.count for each in ranges])

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

    def __init__(self, parts: "list[tuple[RangeId, pl.DataFrame | memoryview]]", counts: list[int]) -> None:
        self._parts = parts
        self._counts = counts

    @property
    def counts(self) -> list[int]:
        return self._counts

    def table(self) -> pa.Table | None:
        """Return the entries of all, in order."""
        return joined(self.tables()) if self._parts else None

    def tables(self) -> list[pa.Table]:
        """The entries of each."""
        return [
            table_of(part) if isinstance(part, pl.DataFrame) else read_range(part, name) for name, part in self._parts
        ]

    def entries(self) -> pl.DataFrame:
        """Return the entries of all, one after the other."""
        return frame_of(joined(self.tables())) if self._parts else empty_entries()


def _divided(entries: pl.DataFrame, counts: Sequence[int]) -> list[pl.DataFrame]:
    """Return entries in pieces, each with text of its own, so that none holds on to the others."""
    ends = list(accumulate(counts))
    return [compact(entries.slice(end - count, count)) for end, count in zip(ends, counts, strict=True)]


def _frame_bytes(frame: pl.DataFrame) -> int:
    return int(frame.estimated_size()) + 1


def _root_bytes(root: Root) -> int:
    return 3 * _frame_bytes(root.nodes.frame)


def _node_name(id_: str, key: str, group: int) -> str:
    """Not by id alone: an equal node elsewhere refers to other packs, which may be garbage while these are not."""
    return f"{id_}/{key}/{group}"


def _metarange_bytes(tree: MetaRange) -> int:
    return 3 * _frame_bytes(tree.frame)  # with the lists of keys which lookups make
