"""Graft: a whole tree in place of what another one has below a prefix, at the cost of the two seams.

For trees which were built elsewhere, like by Spark out of a hundred million entries: their ranges are referred to, not
read. A range ends at a boundary key whatever its neighbours (`boundary.py`), so all but the first and the last segment
of the grafted tree are ranges of the result unchanged. The first one joins the parent's rows before the prefix, back to
the boundary key before them; the last one, which is open, joins the rows after the prefix, up to the next boundary key.
The result is the tree which overlaying the entries one by one would have built, with the same ids.
"""

from bisect import bisect_left
from collections.abc import Sequence

import msgspec
import polars as pl

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.boundary import CHUNKING, Chunking, cut
from penstock.lake.core.committed.entry import row_of, successor
from penstock.lake.core.committed.metarange import MetaRange, Range
from penstock.lake.core.committed.range import EncodedRange, encode_ranges, table_of

__all__ = ["Graft", "Seam", "finish_graft", "pieces_of_seam", "plan_graft"]


class Seam(msgspec.Struct, frozen=True):
    """Ranges to read and rewrite: of the parent [first, last), of the grafted tree [start, end)."""

    first: int
    last: int
    start: int
    end: int
    takes_before: bool  # the parent's rows before the prefix
    takes_behind: bool  # the parent's rows after it: one range may have both


class Graft(msgspec.Struct, frozen=True):
    """The two seams; they are one if the grafted tree has no boundary key."""

    prefix: str
    left: Seam
    right: Seam

    @property
    def seams(self) -> list[Seam]:
        return [self.left] if self.left == self.right else [self.left, self.right]


def plan_graft(parent: MetaRange, source: MetaRange, prefix: str, chunking: Chunking = CHUNKING) -> Graft:
    """Return the seams of a graft. Everything in the source begins with the prefix."""
    end = successor(prefix)
    _check(source, prefix, end)
    closed = [int(each) for each in parent.segments(chunking)]
    closing = [parent.max_keys[each - 1] for each in closed]
    before = bisect_left(closing, prefix)  # segments whose boundary keys stay before the prefix
    first = closed[before - 1] if before else 0
    at_end = len(closing) if end is None else bisect_left(closing, end)  # the segment that reaches beyond the prefix
    rest = closed[at_end - 1] if at_end else 0
    last = closed[at_end] if at_end < len(closed) else len(parent)
    left_last = first + sum(key < prefix for key in parent.min_keys[first:last])
    right_first = last if end is None else rest + sum(key < end for key in parent.max_keys[rest:last])
    segments = [int(each) for each in source.segments(chunking)]
    if not segments:
        whole = Seam(first, last, 0, len(source), takes_before=True, takes_behind=True)
        return Graft(prefix, whole, whole)
    head = segments[0] if left_last > first else 0
    tail = segments[-1] if last > right_first else len(source)
    left = Seam(first, left_last, 0, head, takes_before=True, takes_behind=False)
    right = Seam(right_first, last, tail, len(source), takes_before=False, takes_behind=True)
    return Graft(prefix, left, right)


def _check(source: MetaRange, prefix: str, end: str | None) -> None:
    if len(source) and (source.min_keys[0] < prefix or (end is not None and source.max_keys[-1] >= end)):
        raise InvalidArgument(
            f"the tree has paths from {source.min_keys[0]!r} to {source.max_keys[-1]!r}: not all begin with {prefix!r}"
        )


def pieces_of_seam(
    prefix: str, seam: Seam, parent: pl.DataFrame, source: pl.DataFrame, chunking: Chunking = CHUNKING
) -> list[EncodedRange]:
    """The new ranges of a seam, out of the rows of its ranges: the parent's without those below the prefix."""
    end = successor(prefix)
    before = row_of(parent, prefix) if seam.takes_before else 0
    behind = row_of(parent, end) if seam.takes_behind and end is not None else parent.height
    rows = pl.concat([parent.slice(0, before), source, parent.slice(behind)])
    table = table_of(rows)
    return encode_ranges(table, cut(table, chunking))


def finish_graft(parent: MetaRange, source: MetaRange, graft: Graft, made: Sequence[Sequence[Range]]) -> MetaRange:
    """The new tree, with the new ranges of each seam."""
    frames = [parent.frame.slice(0, graft.left.first), MetaRange.of(made[0]).frame]
    if len(made) > 1:
        middle = source.frame.slice(graft.left.end, graft.right.start - graft.left.end)
        frames += [middle, MetaRange.of(made[1]).frame]
    return MetaRange(pl.concat([*frames, parent.frame.slice(graft.right.last)]).rechunk())
