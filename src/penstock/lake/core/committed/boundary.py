"""Boundaries: where one range ends and the next begins, decided by the keys alone.

Design: committed.md; decision 451. A key whose 64-bit hash is below 2^64 / `rows_mean` is a **boundary
key**: it is the last of its range in every tree that holds it. The keys after one boundary key up to and including the
next are a **segment**. The keys of a segment do not depend on any other segment, so an edit disturbs its own segment
only (and the next, if it removes the boundary key itself), and every part of a tree can be cut by itself: by another
thread, another member, or Spark.

A segment is one range, unless it is longer than the bounds allow: then it is cut every `rows_max` rows and wherever
its bytes pass a multiple of `bytes_max`, both counted from the segment's first row. That is a function of the segment's
content, so ranges stay history-independent; it only makes an edit of such a segment cost the whole of it.

The hash is part of the format. Over the key's little-endian 64-bit words w, the last one filled with zeros:

    h = FIRST ^ (length * MIX_A);   for each w:  h = (h ^ w) * MIX_A;  h = h ^ (h >> 32)
    h = (h ^ (h >> 33)) * MIX_B;    h = (h ^ (h >> 33)) * MIX_C;       h = h ^ (h >> 33)      (all modulo 2^64)
"""

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.lake.core.committed.digest import TextBuffers, text_buffers, text_bytes, text_lengths

__all__ = ["CHUNKING", "Chunking", "cut", "is_boundary", "key_hashes"]

Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]

FIRST: Final = np.uint64(0x9E3779B97F4A7C15)
MIX_A: Final = np.uint64(0xD6E8FEB86659FD93)
MIX_B: Final = np.uint64(0xFF51AFD7ED558CCD)
MIX_C: Final = np.uint64(0xC4CEB9FE1A85EC53)

_BLOCK_ROWS: Final = 1 << 17  # hashed at once: keeps the temporary arrays in the cache, and bounded
_FIXED_BYTES: Final = 16  # size and mtime of one entry


class Chunking(msgspec.Struct, frozen=True):
    """How ranges are cut. Part of a repository's format: two trees compare by id only under the same one."""

    rows_mean: int = 4096
    rows_max: int = 65_536
    bytes_max: int = 32 << 20  # of the entries' text and numbers, before compression

    @property
    def threshold(self) -> np.uint64:
        """Hashes below it are boundaries."""
        return np.uint64((1 << 64) // self.rows_mean)


CHUNKING: Final = Chunking()


def is_boundary(paths: pl.Series, chunking: Chunking = CHUNKING) -> npt.NDArray[np.bool_]:
    """Return which keys end their range, in every tree."""
    return key_hashes(paths) < chunking.threshold


def key_hashes(paths: pl.Series) -> Hashes:
    """The hash of each key."""
    hashes = np.empty(len(paths), np.uint64)
    for start in range(0, len(paths), _BLOCK_ROWS):
        block = paths.slice(start, _BLOCK_ROWS).rechunk()
        hashes[start : start + len(block)] = _hash_block(text_buffers(block))
    return hashes


def _hash_block(keys: TextBuffers) -> Hashes:
    starts, lengths = keys.offsets[:-1], keys.lengths
    # An 8-byte word at every byte; the zeros let the last key's last word reach over the end.
    padded = np.concatenate([keys.data, np.zeros(8, np.uint8)])
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    state = FIRST ^ (lengths.astype(np.uint64) * MIX_A)
    for at in range(0, int(lengths.max(initial=0)), 8):
        longer = lengths > at
        if longer.all():
            state = _absorb(state, words[starts + at], lengths - at)
        else:
            state[longer] = _absorb(state[longer], words[starts[longer] + at], lengths[longer] - at)
    state = (state ^ (state >> np.uint64(33))) * MIX_B
    state = (state ^ (state >> np.uint64(33))) * MIX_C
    result: Hashes = state ^ (state >> np.uint64(33))
    return result


def _absorb(state: Hashes, words: Hashes, left: npt.NDArray[np.integer]) -> Hashes:
    ending = left < 8
    if ending.any():  # the word reaches into the next key: keep this key's bytes
        words[ending] &= (np.uint64(1) << (left[ending] * 8).astype(np.uint64)) - np.uint64(1)
    state = (state ^ words) * MIX_A
    return state ^ (state >> np.uint64(32))


def cut(table: pa.Table, chunking: Chunking = CHUNKING, *, candidates: Rows | None = None) -> list[int]:
    """Return where ranges end in sorted entries that begin with a segment's first row: row numbers, exclusive.

    If `candidates` are given, ascending, no other row has a boundary key, so that no other is hashed.
    """
    if table.num_rows == 0:
        return []
    ends = _boundaries(table, chunking, candidates)
    if len(ends) == 0 or ends[-1] != table.num_rows:
        ends = np.append(ends, table.num_rows)
    starts = np.concatenate([[0], ends[:-1]])
    texts = [column for column in table.columns if column.type != pa.int64()]
    bytes_all = sum(map(text_bytes, texts)) + _FIXED_BYTES * table.num_rows
    if (ends - starts).max() <= chunking.rows_max and bytes_all <= chunking.bytes_max:
        return [int(end) for end in ends]  # as nearly always
    before = _bytes_before(texts)
    too_long = (ends - starts > chunking.rows_max) | (before[ends] - before[starts] > chunking.bytes_max)
    inner = [
        _cut_segment(before[start : end + 1], chunking) + start
        for start, end in zip(starts[too_long], ends[too_long], strict=True)
    ]
    return [int(end) for end in np.unique(np.concatenate([ends, *inner]))]


def _boundaries(table: pa.Table, chunking: Chunking, candidates: Rows | None) -> Rows:
    paths = table.column("path")
    if candidates is None:
        return np.flatnonzero(is_boundary(pl.Series(paths), chunking)) + 1
    return candidates[is_boundary(pl.Series(paths.take(pa.array(candidates))), chunking)] + 1


def _bytes_before(texts: list[pa.ChunkedArray]) -> Rows:
    """Return the number of bytes before each row, and before the end."""
    row_bytes = np.sum([text_lengths(text) for text in texts], axis=0, dtype=np.int64) + _FIXED_BYTES
    return np.concatenate([[0], np.cumsum(row_bytes)])


def _cut_segment(before: Rows, chunking: Chunking) -> Rows:
    """Return where to cut one segment that is too long, counted from its first row."""
    row = np.arange(len(before) - 1)
    slot_rows, slot_bytes = row // chunking.rows_max, (before[:-1] - before[0]) // chunking.bytes_max
    return np.flatnonzero((np.diff(slot_rows) != 0) | (np.diff(slot_bytes) != 0)) + 1
