"""Looking up many paths in a tree: which ranges to read, and the entries in them."""

import msgspec
import numpy as np
import polars as pl

from penstock.lake.core.committed.entry import entry_of, row_of
from penstock.lake.core.committed.metarange import MetaRange
from penstock.lake.core.committed.range import compact
from penstock.lake.core.staging.entry import Entry

__all__ = ["Lookup", "entries_at", "find_entry", "plan_lookup"]


class Lookup(msgspec.Struct, frozen=True):
    """One range to read, and which of the asked paths may be in it: [start, end)."""

    row: int
    start: int
    end: int


def plan_lookup(metarange: MetaRange, paths: pl.Series) -> list[Lookup]:
    """The ranges which may hold some of the sorted paths. A range that holds none of them is not read."""
    if len(paths) == 0 or len(metarange) == 0:
        return []
    starts = paths.search_sorted(metarange.frame["min_key"], side="left").to_numpy()
    ends = paths.search_sorted(metarange.frame["max_key"], side="right").to_numpy()
    return [Lookup(row, int(starts[row]), int(ends[row])) for row in np.flatnonzero(ends > starts).tolist()]


def entries_at(entries: pl.DataFrame, paths: pl.Series) -> pl.DataFrame:
    """The entries of those sorted paths, sorted."""
    return compact(entries.join(paths.to_frame("path"), on="path", how="semi", maintain_order="left"))


def find_entry(entries: pl.DataFrame, path: str) -> Entry | None:
    """The entry of one path, by binary search."""
    row = row_of(entries, path)
    return entry_of(entries, row) if row < entries.height and entries["path"][row] == path else None
