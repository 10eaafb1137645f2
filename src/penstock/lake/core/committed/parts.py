"""Parts of a tree: sorted entries which are cut into ranges by many workers, and joined by one.

A worker has the entries between two keys, and knows none of the keys before or after them. Segments which begin and end
within its part are ranges whatever the others have (`boundary.py`). The rest are its **head**, up to the first boundary
key, and its **tail**, after the last one: a few thousand rows. The process that joins the parts, in order, makes
segments of each tail and the head that follows it. The ranges are the same that a single worker would have made.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl

from penstock.lake.core.committed.boundary import CHUNKING, Chunking, cut, is_boundary
from penstock.lake.core.committed.entry import empty_entries
from penstock.lake.core.committed.metarange import Range
from penstock.lake.core.committed.range import EncodedRange, encode_ranges, table_of

__all__ = ["Part", "join_parts", "split_part"]


class Part:
    """What a worker has made of its entries."""

    def __init__(self, head: pl.DataFrame, ranges: list[Range], tail: pl.DataFrame, *, is_closed: bool) -> None:
        self.head = head
        self.ranges = ranges
        self.tail = tail
        self.is_closed = is_closed  # the head ends with a boundary key; if not, there is nothing else


def split_part(
    entries: pl.DataFrame, chunking: Chunking = CHUNKING
) -> tuple[pl.DataFrame, list[EncodedRange], pl.DataFrame, bool]:
    """Head, whole segments as encoded ranges, tail, and whether there is a boundary key at all."""
    ends = np.flatnonzero(is_boundary(entries["path"], chunking)) + 1
    if not len(ends):
        return entries, [], empty_entries(), False
    first, last = int(ends[0]), int(ends[-1])
    middle = entries.slice(first, last - first)
    return entries.head(first), pieces(middle, chunking), entries.slice(last), True


def join_parts(parts: Iterable[Part]) -> Iterator[pl.DataFrame | Range]:
    """In key order: ranges which are made already, and the rows of segments which are still to be made."""
    rest = empty_entries()
    for part in parts:
        rest = pl.concat([rest, part.head])
        if part.is_closed:
            yield rest
            yield from part.ranges
            rest = part.tail
    if rest.height:
        yield rest


def pieces(rows: pl.DataFrame, chunking: Chunking = CHUNKING) -> list[EncodedRange]:
    """Sorted rows which begin with a segment's first one, as ranges."""
    table = table_of(rows)
    return encode_ranges(table, cut(table, chunking))
