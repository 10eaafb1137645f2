"""Splice three trees: what only one side of a merge changed is taken by reference, unread.

A key that ends a segment in the base, the destination and the source ends one in the merged tree, because every choice
of `merge.py` keeps a path that all three have. Between two such keys lies a **strip**: whole segments of each tree. A
strip whose ranges are the base's on one side is the other side's. Only strips that both sides changed are read.
"""

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from penstock.lake.core.committed.boundary import CHUNKING, Chunking
from penstock.lake.core.committed.metarange import MetaRange

__all__ = ["Spliced", "splice"]


class Spliced(NamedTuple):
    """The destination with what only the source changed, and of each side the ranges that both changed."""

    tree: MetaRange
    base: MetaRange
    dest: MetaRange
    source: MetaRange


def splice(base: MetaRange, dest: MetaRange, source: MetaRange, chunking: Chunking = CHUNKING) -> Spliced:
    """Return the merged tree as far as ids decide it; the strips left to compare hold the destination's ranges."""
    sides = (base, dest, source)
    ends = _common_ends(sides, chunking)
    old, mine, theirs = ([*side.frame["id"]] for side in sides)
    taken: list[int] = []  # rows of the destination, and after those of the source
    both: tuple[list[int], list[int], list[int]] = ([], [], [])
    at = (0, 0, 0)
    for end in ends:
        was, now, new = old[at[0] : end[0]], mine[at[1] : end[1]], theirs[at[2] : end[2]]
        if now == was and new != was:
            taken += range(len(mine) + at[2], len(mine) + end[2])
        else:
            taken += range(at[1], end[1])
            if new not in (was, now):
                for rows, start, stop in zip(both, at, end, strict=True):
                    rows += range(start, stop)
        at = end
    chosen = MetaRange(pl.concat([dest.frame, source.frame])[taken])
    return Spliced(chosen, *(MetaRange(side.frame[rows]) for side, rows in zip(sides, both, strict=True)))


def _common_ends(sides: Sequence[MetaRange], chunking: Chunking) -> list[tuple[int, int, int]]:
    """Return the ends of strips in the base, the destination and the source: range numbers, exclusive."""
    closed = [{side.max_keys[end - 1]: int(end) for end in side.segments(chunking)} for side in sides]
    base, dest, source = closed
    ends = [(end, dest[key], source[key]) for key, end in base.items() if key in dest and key in source]
    return [*ends, (len(sides[0]), len(sides[1]), len(sides[2]))]
