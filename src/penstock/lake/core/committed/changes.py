"""Changes: entries put and paths deleted, as one sorted frame; what a commit lays over its parent.

A frame of changes has `CHANGE_SCHEMA` and strictly ascending paths. A row is a put, or a tombstone (`is_live` is false,
the rest empty): the schema of a staged batch, so that one becomes the other without work. Laying changes over a tree is
**overlay**: the change wins, whatever the tree holds; there are no conflicts (lake.md, L9).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.entry import ENTRY_SCHEMA, STORED_COLUMNS, check_entries, is_ascending

__all__ = [
    "CHANGE_SCHEMA",
    "Overlaid",
    "check_changes",
    "deletes",
    "empty_changes",
    "lay_over",
    "newest",
    "overlay",
    "overlay_rows",
    "puts",
    "puts_of",
]

_STORED: Final = {name: ENTRY_SCHEMA[name] for name in STORED_COLUMNS}
CHANGE_SCHEMA: Final = pl.Schema({"path": pl.String(), "is_live": pl.Boolean(), **_STORED})


def empty_changes() -> pl.DataFrame:
    return pl.DataFrame(schema=CHANGE_SCHEMA)


def puts(entries: pl.DataFrame) -> pl.DataFrame:
    """Changes which put these entries."""
    return entries.select("path", pl.lit(True).alias("is_live"), *STORED_COLUMNS)


def deletes(paths: pl.Series) -> pl.DataFrame:
    """Changes which delete these paths, each named once and in order."""
    nothing = [pl.lit("" if kind == pl.String else 0, kind).alias(name) for name, kind in _STORED.items()]
    return pl.DataFrame({"path": paths}).select("path", pl.lit(False).alias("is_live"), *nothing)


def puts_of(changes: pl.DataFrame) -> pl.DataFrame:
    """The entries which the changes put."""
    is_live = changes["is_live"]
    return (changes if is_live.all() else changes.filter(is_live))[ENTRY_SCHEMA.names()]


def newest(changes: pl.DataFrame) -> pl.DataFrame:
    """Changes in the order they were made, as a frame of changes: sorted, and of each path the last."""
    if not changes["path"].is_sorted():
        changes = changes.sort("path", maintain_order=True)
    last = (changes["path"] != changes["path"].shift(-1)).fill_null(value=True)
    return changes if last.all() else changes.filter(last)


def lay_over(areas: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The changes of several areas, oldest first, as one: the newest of each path wins."""
    return newest(pl.concat(areas)) if areas else empty_changes()


def overlay(entries: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
    """The entries with the changes laid over them: shown tree = committed tree overlaid by the areas, in small."""
    return pl.concat([entries, puts_of(changes)], rechunk=True)[overlay_rows(entries["path"], changes).rows]


class Overlaid(NamedTuple):
    """Which rows an overlay consists of, without the rows."""

    rows: npt.NDArray[np.int64]  # where each comes from: a row of the entries, or behind those, of the puts
    replaced: npt.NDArray[np.int64]  # of each put, the row of the entries which has its path; -1 for a new path


def overlay_rows(paths: pl.Series, changes: pl.DataFrame) -> Overlaid:
    """Return the origin of each row of the overlay, if the entries have these paths.

    Both are sorted, so each change is sought in the entries, and one gather makes the result: no join, no sort.
    """
    count, is_live = len(paths), changes["is_live"].to_numpy()
    rows, new = np.arange(count), count + np.arange(np.count_nonzero(is_live))
    if count == 0 or changes.height == 0:
        return Overlaid(np.append(rows, new), np.full(len(new), -1))
    at = paths.search_sorted(changes["path"]).to_numpy().astype(np.int64)
    is_found = (paths.gather(np.minimum(at, count - 1)) == changes["path"]).to_numpy()
    replaced = np.where(is_found, at, -1)[is_live]
    is_new = replaced < 0
    rows[replaced[~is_new]] = new[~is_new]
    rows[at[is_found & ~is_live]] = -1
    if is_new.any():
        rows = np.insert(rows, at[is_live][is_new], new[is_new])
    return Overlaid(rows if is_live.all() else rows[rows >= 0], replaced)


def check_changes(changes: pl.DataFrame) -> pl.DataFrame:
    """The frame itself if it is one of changes, else `InvalidArgument`."""
    if changes.schema != CHANGE_SCHEMA:
        raise InvalidArgument(f"changes have the columns {dict(CHANGE_SCHEMA)}, not {dict(changes.schema)}")
    check_entries(puts_of(changes))
    missing = changes["path"].null_count() + changes["is_live"].null_count()
    if missing or not is_ascending(changes["path"]):
        raise InvalidArgument("not changes: the paths are not strictly ascending, or one is missing")
    return changes
