"""Diff of two trees, at the cost of what differs.

Ranges with equal ids are skipped unread: since ids cover every stored column and keys are unique in a tree, a key in a
skipped range is the same on both sides. What is left falls into **overlaps**, groups of ranges whose keys interleave;
each is compared by itself, in any order and anywhere.

A diff's rows: `path`, `kind`, the right side's stored columns, and the left side's with the prefix `left_`. A row whose
identities are equal, so that only address or mtime differ, is `READDRESSED`: people are not shown it, but
re-parenting (lake.md, L9) needs it.
"""

from enum import IntEnum
from typing import Final

import msgspec
import polars as pl

from penstock.lake.committed.entry import ENTRY_SCHEMA, STORED_COLUMNS, identity, same
from penstock.lake.committed.metarange import MetaRange

__all__ = ["DIFF_SCHEMA", "DiffKind", "Overlap", "diff_entries", "empty_diff", "plan_diff", "visible"]


class DiffKind(IntEnum):
    """What became of a path from left to right."""

    ADDED = 1
    REMOVED = 2
    CHANGED = 3
    READDRESSED = 4  # the same content under another address or mtime


_STORED: Final = {name: kind for name, kind in ENTRY_SCHEMA.items() if name != "path"}
DIFF_SCHEMA: Final = pl.Schema(
    {"path": pl.String(), "kind": pl.Int8(), **_STORED, **{f"left_{name}": kind for name, kind in _STORED.items()}}
)


class Overlap(msgspec.Struct, frozen=True):
    """Ranges of both sides to compare with each other, as row numbers of the two metaranges."""

    left: tuple[int, ...]
    right: tuple[int, ...]


def empty_diff() -> pl.DataFrame:
    return pl.DataFrame(schema=DIFF_SCHEMA)


def plan_diff(left: MetaRange, right: MetaRange, prefix: str = "") -> list[Overlap]:
    """What must be read to compare two trees, in key order. With a prefix, only ranges which may hold such paths."""
    if left.id == right.id:
        return []
    sides = [_only_in(left, right, prefix, side=0), _only_in(right, left, prefix, side=1)]
    overlaps: list[tuple[list[int], list[int]]] = []
    highest = ""
    for low, high, side, row in sorted(sides[0] + sides[1]):
        if not overlaps or low > highest:
            overlaps.append(([], []))
        overlaps[-1][side].append(row)
        highest = max(highest, high)
    return [Overlap(tuple(one), tuple(other)) for one, other in overlaps]


def _only_in(one: MetaRange, other: MetaRange, prefix: str, side: int) -> list[tuple[str, str, int, int]]:
    """(min key, max key, side, row) of the ranges which the other tree does not have."""
    rows = one.frame.with_row_index("row").join(other.frame.select("id"), on="id", how="anti")
    if prefix:
        inside = (pl.col("max_key") >= prefix) & (
            (pl.col("min_key") < prefix) | pl.col("min_key").str.starts_with(prefix)
        )
        rows = rows.filter(inside)
    return [(low, high, side, row) for row, low, high in rows.select("row", "min_key", "max_key").iter_rows()]


def diff_entries(left: pl.DataFrame, right: pl.DataFrame, prefix: str = "") -> pl.DataFrame:
    """The differences between two frames of entries, sorted by path."""
    if prefix:
        left, right = (side.filter(pl.col("path").str.starts_with(prefix)) for side in (left, right))
    renamed = left.rename({name: f"left_{name}" for name in STORED_COLUMNS})
    both = right.join(renamed, on="path", how="full", coalesce=True)
    stored = [[pl.col(f"{side}{name}") for name in STORED_COLUMNS] for side in ("", "left_")]
    differing = both.filter(~same(*stored))
    kind = (
        pl.when(pl.col("left_size").is_null())
        .then(DiffKind.ADDED.value)
        .when(pl.col("size").is_null())
        .then(DiffKind.REMOVED.value)
        .when(~same(identity(), identity("left_")))
        .then(DiffKind.CHANGED.value)
        .otherwise(DiffKind.READDRESSED.value)
    )
    return differing.with_columns(kind.cast(pl.Int8).alias("kind")).select(DIFF_SCHEMA.names()).sort("path")


def visible(diff: pl.DataFrame) -> pl.DataFrame:
    """The differences in content: what people mean by a diff."""
    return diff.filter(pl.col("kind") != DiffKind.READDRESSED.value)
