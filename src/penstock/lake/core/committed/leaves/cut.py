"""Cut rows into leaves, and leaves into nodes, by their keys alone.

Design: committed.md; decision 453. A key whose hash is below 2^64 / `node_rows_mean` is a **node key**: it
ends its node, and so its leaf, in every tree that holds it. Within a node a leaf ends with the first leaf key (hash
below 2^64 / `rows_mean`) after at least `rows_min` rows of this leaf, and at `rows_max` rows or `bytes_max` bytes at
the latest. After a cut nothing is remembered, so a cut is a function of the rows since the cut before. Cuts of two
trees that fall together stay together until the next difference, and meet at the node's end at the latest.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.lake.core.committed.boundary import key_hashes
from penstock.lake.core.committed.digest import text_bytes, text_lengths

__all__ = ["LEAF_CUT", "CutSpan", "LeafCut", "cut_spans", "is_node_key"]

_NUMBERS_BYTES: Final = 16  # size and mtime of one entry


class LeafCut(msgspec.Struct, frozen=True):
    """How leaves and nodes are cut. Part of a repository's format: two trees compare by id only under the same one."""

    rows_mean: int = 128
    rows_min: int = 128
    rows_max: int = 1024
    bytes_max: int = 4 << 20  # of the entries' text and numbers, before compression
    node_rows_mean: int = 65_536


LEAF_CUT: Final = LeafCut()


class CutSpan(NamedTuple):
    """The leaves of one span: the row after each, and whether the last one ends by a rule, whatever follows."""

    ends: list[int]
    is_closed: bool


def is_node_key(paths: pl.Series, cut: LeafCut = LEAF_CUT) -> npt.NDArray[np.bool_]:
    """Return for each key whether it ends a node."""
    return key_hashes(paths) < _threshold(cut.node_rows_mean)


def cut_spans(table: pa.Table, stops: Sequence[int], cut: LeafCut = LEAF_CUT) -> list[CutSpan]:
    """Return the leaves of each span of sorted rows; spans end at `stops`, and each begins with a leaf's first row."""
    hashes = key_hashes(pl.Series(table.column("path"), dtype=pl.String))
    leaf_ends = (np.flatnonzero(hashes < _threshold(cut.rows_mean)) + 1).tolist()
    node_ends = (np.flatnonzero(hashes < _threshold(cut.node_rows_mean)) + 1).tolist()
    before = _bytes_before(table, cut)
    never = table.num_rows + 1
    leaf_ends.append(never)
    node_ends.append(never)
    spans: list[CutSpan] = []
    start = 0
    for stop in stops:
        ends: list[int] = []
        is_closed = False
        while start < stop:
            by_key = leaf_ends[min(bisect_left(leaf_ends, start + cut.rows_min), len(leaf_ends) - 1)]
            end = min(by_key, node_ends[bisect_right(node_ends, start)], start + cut.rows_max)
            if before is not None:
                end = min(end, int(np.searchsorted(before, before[start] + cut.bytes_max)))
            is_closed = end <= stop
            start = min(end, stop)
            ends.append(start)
        spans.append(CutSpan(ends, is_closed))
    return spans


def _threshold(rows_mean: int) -> np.uint64:
    return np.uint64((1 << 64) // rows_mean)


def _bytes_before(table: pa.Table, cut: LeafCut) -> npt.NDArray[np.int64] | None:
    """Return the bytes before each row and before the end, or none if their sum is below the limit."""
    texts = [column for column in table.columns if column.type != pa.int64()]
    if sum(map(text_bytes, texts)) + _NUMBERS_BYTES * table.num_rows < cut.bytes_max:
        return None
    row_bytes = np.sum([text_lengths(text) for text in texts], axis=0, dtype=np.int64) + _NUMBERS_BYTES
    return np.concatenate([[0], np.cumsum(row_bytes)])
