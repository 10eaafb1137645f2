"""Look up many paths in a tree: name the ranges or leaves to read, and take the entries out of them."""

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from penstock.lake.core.committed.contents import Contents
from penstock.lake.core.committed.entry import entry_of, row_of
from penstock.lake.core.committed.range import compact
from penstock.lake.core.staging.entry import Entry

__all__ = ["Lookup", "LookupBatch", "batches_of", "entries_at", "find_entry", "plan_lookup"]


FEW_PATHS: Final = 4096  # are looked up one by one


class Lookup(msgspec.Struct, frozen=True):
    """One part to read, and which of the asked paths may be in it: [start, end)."""

    row: int
    start: int
    end: int


def plan_lookup(contents: Contents, paths: pl.Series) -> list[Lookup]:
    """The parts which may hold some of the sorted paths. A part without any of them is left out."""
    if len(paths) == 0 or len(contents) == 0:
        return []
    if len(paths) <= FEW_PATHS:
        return _plan_few(contents, paths.to_list())
    starts = paths.search_sorted(contents.frame["min_key"], side="left").to_numpy()
    ends = paths.search_sorted(contents.frame["max_key"], side="right").to_numpy()
    return [Lookup(row, int(starts[row]), int(ends[row])) for row in np.flatnonzero(ends > starts).tolist()]


def _plan_few(contents: Contents, paths: list[str]) -> list[Lookup]:
    """Return the same with a search for each part that is found, not for each part that there is."""
    found: list[Lookup] = []
    at = 0
    while at < len(paths):
        row = bisect_left(contents.max_keys, paths[at])
        if row == len(contents):
            break
        start = bisect_left(paths, contents.min_keys[row], at)
        end = bisect_right(paths, contents.max_keys[row], at)
        if start < end:
            found.append(Lookup(row, start, end))
        at = max(start, end)
    return found


class LookupBatch(NamedTuple):
    """Parts to read at once, and the paths [start, end) that may be in them."""

    rows: list[int]
    start: int
    end: int


def batches_of(contents: Contents, paths: pl.Series, rows_max: int) -> list[LookupBatch]:
    """Return the parts that may hold some of the sorted paths, in batches of about `rows_max` rows."""
    counts = contents.counts
    batches: list[LookupBatch] = []
    rows = rows_max
    for each in plan_lookup(contents, paths):
        if rows >= rows_max:
            batches.append(LookupBatch([], each.start, each.end))
            rows = 0
        batches[-1] = LookupBatch([*batches[-1].rows, each.row], batches[-1].start, each.end)
        rows += counts[each.row]
    return batches


def entries_at(entries: pl.DataFrame, paths: pl.Series) -> pl.DataFrame:
    """The entries of those sorted paths, sorted."""
    return compact(entries.join(paths.to_frame("path"), on="path", how="semi", maintain_order="left"))


def find_entry(entries: pl.DataFrame, path: str) -> Entry | None:
    """The entry of one path, by binary search."""
    row = row_of(entries, path)
    return entry_of(entries, row) if row < entries.height and entries["path"][row] == path else None
