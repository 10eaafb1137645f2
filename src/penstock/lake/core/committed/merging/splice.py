"""Splice three trees: what only one side of a merge changed is taken by reference, unread.

It holds for ranges, nodes and leaves alike. A key that ends a segment in the base, the destination and the source ends
one in the merged tree, because every choice of `merge.py` keeps a path that all three have. Between two such keys lies
a **strip**: whole segments of each tree. A strip whose parts are the base's on one side is the other side's. Only
strips that both sides changed are read.
"""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import polars as pl

from penstock.lake.core.committed.contents import Contents

__all__ = ["Spliced", "splice"]

C = TypeVar("C", bound=Contents)


class Spliced(NamedTuple, Generic[C]):
    """The destination with what only the source changed, and of each side the parts that both changed."""

    tree: C
    base: C
    dest: C
    source: C
    both: list[int]  # the rows of `tree` that are `dest`


def splice(base: C, dest: C, source: C, cut: Any) -> Spliced[C]:
    """Return the merged tree as far as ids decide it; the strips left to compare hold the destination's parts.

    The sides are ranges, nodes or leaves, cut by the same rule.
    """
    sides = (base, dest, source)
    ends = _common_ends(sides, cut)
    old, mine, theirs = (side.ids for side in sides)
    taken: list[int] = []  # rows of the destination, and after those of the source
    both: tuple[list[int], list[int], list[int]] = ([], [], [])
    open_rows: list[int] = []
    at = (0, 0, 0)
    for end in ends:
        was, now, new = old[at[0] : end[0]], mine[at[1] : end[1]], theirs[at[2] : end[2]]
        if now == was and new != was:
            taken += range(len(mine) + at[2], len(mine) + end[2])
        else:
            if new not in (was, now):
                open_rows += range(len(taken), len(taken) + end[1] - at[1])
                for rows, start, stop in zip(both, at, end, strict=True):
                    rows += range(start, stop)
            taken += range(at[1], end[1])
        at = end
    chosen = type(dest)(pl.concat([dest.frame, source.frame])[taken])
    changed = [side.of(rows) for side, rows in zip(sides, both, strict=True)]
    return Spliced(chosen, changed[0], changed[1], changed[2], open_rows)


def _common_ends(sides: Sequence[Contents], cut: Any) -> list[tuple[int, int, int]]:
    """Return the ends of strips in the base, the destination and the source: range numbers, exclusive."""
    closed = [{side.max_keys[end - 1]: int(end) for end in side.segments(cut)} for side in sides]
    base, dest, source = closed
    ends = [(end, dest[key], source[key]) for key, end in base.items() if key in dest and key in source]
    return [*ends, (len(sides[0]), len(sides[1]), len(sides[2]))]
