"""A run: changes of one staging area, sorted by path, as Arrow columns which never change. Design: lake.md L4, L17.

A run has a digest of its content, computed once: members with equal runs have equal digests, however they came by them.
"""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.lake.staging.entry import SCHEMA, Change, Entry, batch_of, batch_to_bytes, entry_at, read_batch

__all__ = ["Run", "bisect", "find", "merge_order"]


class Run:
    """Sorted rows, each path once."""

    __slots__ = ("batch", "digest", "paths")

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.paths: pa.LargeStringArray = batch.column(0)
        self.digest = _digest(batch)

    @classmethod
    def of(cls, changes: Iterable[Change]) -> "Run":
        """From rows in any order; each path once."""
        return cls(batch_of(sorted(changes, key=lambda change: change[0])))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Run":
        return cls(read_batch(data))

    def to_bytes(self) -> bytes:
        return batch_to_bytes(self.batch)

    def __len__(self) -> int:
        return len(self.paths)

    def __contains__(self, path: str) -> bool:
        return find(self.paths, path) is not None

    def get(self, path: str) -> Entry | None:
        """The entry; None is a tombstone. The path must be there."""
        row = find(self.paths, path)
        assert row is not None, path
        return entry_at(self.batch, row)

    def changes(self) -> list[Change]:
        """As Python objects: for small runs and for tests."""
        return [(path.as_py(), entry_at(self.batch, row)) for row, path in enumerate(self.paths)]

    def live(self) -> npt.NDArray[np.bool_]:
        """Which rows are no tombstones."""
        return np.asarray(self.batch.column(1).to_numpy(zero_copy_only=False), dtype=np.bool_)

    def without(self, paths: Sequence[str], prefixes: Sequence[str]) -> "Run":
        """The same run without these paths and without all that begins with these prefixes."""
        drop = pc.is_in(self.paths, value_set=pa.array(paths, pa.large_string()))
        for prefix in prefixes:
            drop = pc.or_(drop, pc.starts_with(self.paths, prefix))
        return self if not pc.any(drop).as_py() else Run(self.batch.filter(pc.invert(drop)))


def bisect(paths: pa.LargeStringArray, path: str, side: str = "left") -> int:
    """The first row not before the path in sorted paths; for `right`, the first row behind it."""
    return int(pc.search_sorted(paths, pa.scalar(path, pa.large_string()), side=side).as_py()) if len(paths) else 0


def find(paths: pa.LargeStringArray, path: str) -> int | None:
    """The row of a path in sorted paths, if it is there."""
    row = bisect(paths, path)
    return row if row < len(paths) and paths[row].as_py() == path else None


def merge_order(older: pa.LargeStringArray, newer: pa.LargeStringArray) -> npt.NDArray[np.int64]:
    """How to take rows from older + newer, so that they are sorted and the newer of two equal paths stands alone."""
    at = pc.search_sorted(older, newer).to_numpy(zero_copy_only=False).astype(np.int64)
    keep = np.ones(len(older), dtype=np.bool_)
    inside = np.flatnonzero(at < len(older))
    if len(inside):
        same = pc.equal(older.take(pa.array(at[inside])), newer.take(pa.array(inside)))
        keep[at[inside[np.flatnonzero(same.to_numpy(zero_copy_only=False))]]] = False
    kept = np.flatnonzero(keep)
    places = np.searchsorted(kept, at) + np.arange(len(newer))  # where each newer row goes among the kept older ones
    order = np.empty(len(kept) + len(newer), dtype=np.int64)
    is_newer = np.zeros(len(order), dtype=np.bool_)
    is_newer[places] = True
    order[places] = np.arange(len(newer)) + len(older)
    order[~is_newer] = kept
    return order


def _digest(batch: pa.RecordBatch) -> bytes:
    """Over lengths and values of each column, not over Arrow's buffers: a slice and its copy are equal."""
    digest = hashlib.sha256(batch.num_rows.to_bytes(8, "big"))
    for column, field in zip(batch.columns, SCHEMA, strict=True):
        if pa.types.is_large_string(field.type):
            lengths = pc.binary_length(column)
            digest.update(_values(lengths))
            digest.update(_text(column))
        else:
            digest.update(_values(column))
    return digest.digest()[:16]


def _values(column: pa.Array) -> memoryview:
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False)).data.cast("B")


def _text(column: pa.LargeStringArray) -> memoryview:
    """All strings of a column in a row."""
    _, offsets, data = column.buffers()
    if data is None:
        return memoryview(b"")
    where = np.frombuffer(offsets, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    return memoryview(data)[int(where[0]) : int(where[-1])]
