"""Packs in an object store: row groups are read by their bytes, many at once; footers are kept."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.lake.core.committed.columns import joined, rows_of
from penstock.lake.core.committed.leaves.node import NARROW_LEAVES, Leaves, leaf_ids, node_ids
from penstock.lake.core.committed.leaves.pack import (
    broken,
    footer_of,
    group_bytes,
    group_starts,
    pack_bytes,
    read_groups,
    sparse,
)
from penstock.lake.core.committed.range import NARROW_ENTRIES, frame_of, other_content
from penstock.lake.member.committed.cache import Cache
from penstock.plumbing.objects import ObjectStore

__all__ = ["FetchedLeaves", "FetchedNodes", "PackFiles"]

TAIL_BYTES: Final = 64 << 10  # read at once of a pack whose footer is not known; a pack of that size whole
WHOLE_PART: Final = 3  # a pack of which a third is wanted is read whole
READS_AT_ONCE: Final = 64
RANGES_AT_ONCE: Final = 1000  # of one call of the store


class Footer(msgspec.Struct, frozen=True):
    """A pack's footer, and the number of rows before each of its row groups."""

    parquet: pq.FileMetaData
    starts: list[int]


class FetchedGroups(msgspec.Struct, frozen=True):
    """Some row groups of a pack, still encoded."""

    key: str
    footer: Footer
    groups: list[int]
    data: pa.Buffer

    def table(self, schema: pa.Schema) -> pa.Table:
        return read_groups(self.key, self.data, self.footer.parquet, self.groups, schema)


class PackFiles:
    """The packs of one repository, below its storage namespace. For one event loop."""

    def __init__(self, store: ObjectStore, namespace: str, footers_bytes_max: int) -> None:
        self._store = store
        self._namespace = namespace
        self._reads = asyncio.Semaphore(READS_AT_ONCE)
        self.footers: Cache[Footer] = Cache(footers_bytes_max, lambda footer: 4 * footer.parquet.serialized_size)

    async def fetch(self, places: Iterable[tuple[str, int]]) -> dict[str, FetchedGroups]:
        """Read the row groups at those places (pack, group)."""
        wanted: dict[str, set[int]] = {}
        for key, group in places:
            wanted.setdefault(key, set()).add(group)
        found = await asyncio.gather(*(self._fetch(key, sorted(groups)) for key, groups in wanted.items()))
        return {each.key: each for each in found}

    async def _fetch(self, key: str, groups: list[int]) -> FetchedGroups:
        async with self._reads:
            size = pack_bytes(key)
            footer = self.footers.peek(key)
            if size <= TAIL_BYTES:
                data = await self._read(key, 0, size)
                return FetchedGroups(key, footer or self._keep(key, _footer(key, data)), groups, pa.py_buffer(data))
            if footer is None:
                footer = await self.footers.get(key, lambda: self._read_footer(key))
            ranges = [group_bytes(key, footer.parquet, group) for group in groups]
            if WHOLE_PART * sum(end - start for start, end in ranges) >= size:
                return FetchedGroups(key, footer, groups, pa.py_buffer(await self._read(key, 0, size)))
            return FetchedGroups(key, footer, groups, sparse(key, await self._read_ranges(key, _merged(ranges))))

    async def _read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> dict[int, memoryview]:
        pieces: dict[int, memoryview] = {}
        for first in range(0, len(ranges), RANGES_AT_ONCE):
            some = ranges[first : first + RANGES_AT_ONCE]
            found = await self._store.get_ranges(self._namespace + key, some)
            pieces.update((start, data) for (start, _), data in zip(some, found, strict=True))
        return pieces

    async def _read_footer(self, key: str) -> Footer:
        size = pack_bytes(key)
        tail = await self._read(key, max(0, size - TAIL_BYTES), size)
        found = footer_of(key, tail)
        if isinstance(found, int):
            found = footer_of(key, await self._read(key, size - found, size))
            assert not isinstance(found, int)
        return Footer(found, group_starts(found))

    def _keep(self, key: str, footer: Footer) -> Footer:
        self.footers.put(key, footer)
        return footer

    async def _read(self, key: str, start: int, end: int) -> memoryview:
        found = (await self._store.get(self._namespace + key, start, end)).data
        if len(found) != end - start:
            raise broken(key, f"it has {start + len(found)} bytes")
        return found


def _footer(key: str, data: memoryview) -> Footer:
    found = footer_of(key, data)
    assert not isinstance(found, int)
    return Footer(found, group_starts(found))


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges with those that meet as one."""
    merged: list[tuple[int, int]] = []
    for start, end in ranges:
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


class FetchedLeaves:
    """Leaves whose row groups were read. Call its methods in a thread."""

    def __init__(self, leaves: Leaves, packs: Mapping[str, FetchedGroups]) -> None:
        self._leaves = leaves
        self._packs = packs

    @property
    def counts(self) -> list[int]:
        return self._leaves.frame["count"].to_list()

    def table(self) -> pa.Table | None:
        """Return the rows of all leaves, in order, and compare each leaf with its id."""
        if not len(self._leaves):
            return None
        tables = {key: each.table(NARROW_ENTRIES) for key, each in self._packs.items()}
        table = joined([tables[key].slice(start, rows) for key, start, rows in self._runs()])
        ends = np.cumsum(self._leaves.frame["count"].to_numpy()).tolist()
        expected = self._leaves.frame["id"].to_list()
        for row, (id_, found) in enumerate(zip(expected, leaf_ids(table, ends), strict=True)):
            if id_ != found:
                raise other_content(f"leaf {id_} in {self._leaves[row].pack} holds other entries: their id is {found}")
        return table

    def entries(self) -> pl.DataFrame:
        table = self.table()
        return frame_of(NARROW_ENTRIES.empty_table() if table is None else table)

    def _runs(self) -> list[tuple[str, int, int]]:
        """Return where the rows lie: (pack, row among those that were read, how many)."""
        before: dict[str, dict[int, int]] = {}  # of each group that was read, how much its rows come earlier
        for key, pack in self._packs.items():
            at, shifts = 0, {}
            for group in pack.groups:
                shifts[group] = at - pack.footer.starts[group]
                at += pack.footer.starts[group + 1] - pack.footer.starts[group]
            before[key] = shifts
        runs: list[tuple[str, int, int]] = []
        for key, group, first, count in rows_of(self._leaves.frame, "pack", "group", "first", "count"):
            starts = self._packs[key].footer.starts
            if not starts[group] <= first <= first + count <= starts[group + 1]:
                raise broken(key, f"its row group {group} has no {count} rows from row {first} on")
            start = first + before[key][group]
            if runs and runs[-1][0] == key and runs[-1][1] + runs[-1][2] == start:
                runs[-1] = (key, runs[-1][1], runs[-1][2] + count)
            else:
                runs.append((key, start, count))
        return runs


class FetchedNodes:
    """Nodes whose row groups were read. Call its methods in a thread."""

    def __init__(self, nodes: Sequence[tuple[str, str, int]], packs: Mapping[str, FetchedGroups]) -> None:
        self._nodes = nodes  # id, index pack, row group
        self._packs = packs

    def leaves(self) -> list[Leaves]:
        """Return the leaves of each node, compared with its id."""
        found: dict[tuple[str, int], Leaves] = {}
        for key, pack in self._packs.items():
            frame = frame_of(pack.table(NARROW_LEAVES))
            rows = [pack.footer.starts[group + 1] - pack.footer.starts[group] for group in pack.groups]
            ends = np.cumsum(rows).tolist()
            expected = {group: id_ for id_, each, group in self._nodes if each == key}
            for group, (start, end), id_ in zip(pack.groups, pairwise([0, *ends]), node_ids(frame, ends), strict=True):
                if expected[group] != id_:
                    raise other_content(f"node {expected[group]} in {key} holds other leaves: their id is {id_}")
                found[key, group] = Leaves(frame[start:end])
        return [found[key, group] for _, key, group in self._nodes]
