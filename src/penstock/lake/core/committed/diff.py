"""Diff of two trees, at the cost of what differs.

Ranges with equal ids are skipped unread: since ids cover every stored column and keys are unique in a tree, a key in a
skipped range is the same on both sides. The rest falls into **overlaps**, groups of ranges whose keys interleave;
each is compared by itself, in any order and anywhere.

A diff's rows: `path`, `kind`, the right side's stored columns, and the left side's with the prefix `left_`. A row whose
identities are equal, so that only address or mtime differ, is `READDRESSED`: people are not shown it, but
re-parenting (lake.md, L9) needs it.
"""

from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

import msgspec
import polars as pl

from penstock.lake.core.committed.contents import Contents
from penstock.lake.core.committed.entry import ENTRY_SCHEMA, STORED_COLUMNS, identity, row_of, same
from penstock.lake.core.committed.range import compact

__all__ = [
    "DIFF_SCHEMA",
    "OVERLAP_ROWS",
    "DiffKind",
    "Overlap",
    "batched",
    "compare",
    "diff_entries",
    "empty_diff",
    "only_in",
    "plan_diff",
    "visible",
]

C = TypeVar("C", bound=Contents)

FIRST_ROWS: Final = 1 << 12  # of the first batch
OVERLAP_ROWS: Final = 1 << 17  # compared at once, more or less: trees whose keys all interleave are no single overlap


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
    """Ranges of both sides to compare, as row numbers of the two metaranges; of their keys, those in (after, upto]."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    after: str | None  # none: from the beginning
    upto: str


class _Span(NamedTuple):
    """A range which only one side has."""

    low: str
    high: str
    side: int
    row: int
    rows: int


def empty_diff() -> pl.DataFrame:
    return pl.DataFrame(schema=DIFF_SCHEMA)


def plan_diff(
    left: Contents, right: Contents, prefix: str = "", overlap_rows: int = OVERLAP_ROWS, *, start: str = ""
) -> list[Overlap]:
    """Return the ranges to read to compare two trees, in key order.

    With a prefix, only ranges that may hold such paths. With a start, no overlap that ends before it.
    """
    spans = sorted(_only_in(left, right, prefix, side=0) + _only_in(right, left, prefix, side=1))
    groups: list[list[_Span]] = []
    highest = ""
    for span in spans:
        if not groups or span.low > highest:
            groups.append([])
        groups[-1].append(span)
        highest = max(highest, span.high)
    return [overlap for group in groups for overlap in _windows(group, overlap_rows) if overlap.upto >= start]


def batched(
    overlaps: Sequence[Overlap], left: Contents, right: Contents, rows_max: int = OVERLAP_ROWS
) -> list[Overlap]:
    """Return the overlaps with neighbours as one, few rows at first, so that a first page costs little."""
    counts = left.counts, right.counts
    batches: list[Overlap] = []
    room, rows = FIRST_ROWS, 0
    for each in overlaps:
        own = sum(counts[0][row] for row in each.left) + sum(counts[1][row] for row in each.right)
        last = batches[-1] if batches else None
        if last is not None and each.after is None and rows + own <= room:
            batches[-1] = Overlap(last.left + each.left, last.right + each.right, last.after, each.upto)
            rows += own
        else:
            if last is not None:
                room = min(2 * room, rows_max)
            batches.append(each)
            rows = own
    return batches


def only_in(one: C, other: Contents) -> C:
    """Return the parts whose ids the other tree does not have."""
    theirs = set(other.ids)
    return one.of([row for row, id_ in enumerate(one.ids) if id_ not in theirs])


def _only_in(one: Contents, other: Contents, prefix: str, side: int) -> list[_Span]:
    theirs, ids = set(other.ids), one.ids
    return [
        _Span(one.min_keys[row], one.max_keys[row], side, row, one.counts[row])
        for row in one.below(prefix)
        if ids[row] not in theirs
    ]


def _windows(group: list[_Span], overlap_rows: int) -> list[Overlap]:
    """Return a group as one overlap, or as several in a row, if it would be too much to hold at once."""
    ends: list[str] = []
    rows = 0
    for high, count in sorted((span.high, span.rows) for span in group):
        rows += count
        if rows >= overlap_rows:
            ends.append(high)
            rows = 0
    last = max(span.high for span in group)
    ends = ends if ends and ends[-1] == last else [*ends, last]
    return [_window(group, after, upto) for after, upto in pairwise([None, *ends]) if upto is not None]


def _window(group: list[_Span], after: str | None, upto: str) -> Overlap:
    sides: tuple[list[int], list[int]] = ([], [])
    for span in group:
        if (after is None or span.high > after) and span.low <= upto:
            sides[span.side].append(span.row)
    return Overlap(tuple(sides[0]), tuple(sides[1]), after, upto)


def compare(overlap: Overlap, left: pl.DataFrame, right: pl.DataFrame, *, prefix: str = "") -> pl.DataFrame:
    """The differences in one overlap, whose ranges hold these entries."""
    return compact(diff_entries(_cut_out(left, overlap, prefix), _cut_out(right, overlap, prefix)))


def _cut_out(entries: pl.DataFrame, overlap: Overlap, prefix: str) -> pl.DataFrame:
    start = 0 if overlap.after is None else row_of(entries, overlap.after, behind=True)
    inside = entries.slice(start, row_of(entries, overlap.upto, behind=True) - start)
    return inside.filter(pl.col("path").str.starts_with(prefix)) if prefix else inside


def diff_entries(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """The differences between two frames of entries, sorted by path."""
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
