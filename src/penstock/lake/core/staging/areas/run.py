"""A run: changes of one staging area, sorted by path, which never change. Design: lake.md L4, L17.

Many rows are Arrow columns. Few are a dict, because a call of Arrow costs more than looking at all of them; their
columns are made when someone asks for them. Which of the two a run is shows nowhere: it has a digest of its content,
and members with equal runs have equal digests, however they came by them.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.lake.core.staging.areas.entry_columns import (
    SCHEMA,
    TOMBSTONE,
    batch_of,
    batch_to_bytes,
    changes_of,
    entry_at,
    read_batch,
)
from penstock.lake.core.staging.entry import Change, Entry

__all__ = ["SMALL_ROWS_MAX", "Run", "bisect", "find", "merge_order"]

SMALL_ROWS_MAX = 256  # up to this number of rows a dict is faster than columns, and not much larger

Rows = Mapping[str, Entry | None]


class Run:
    """Sorted rows, each path once."""

    __slots__ = ("_batch", "_digest", "_rows")

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch: pa.RecordBatch | None = batch
        self._rows: Rows | None = None  # of a small run, once they are asked for
        self._digest = b""

    @classmethod
    def of(cls, changes: Iterable[Change]) -> "Run":
        """Make a run from rows in any order; each path once."""
        rows = dict(sorted(changes, key=lambda change: change[0]))
        if len(rows) > SMALL_ROWS_MAX:
            return cls(batch_of(rows.items()))
        run = cls.__new__(cls)
        run._batch, run._rows, run._digest = None, rows, b""
        return run

    @classmethod
    def from_bytes(cls, data: bytes) -> "Run":
        return cls(read_batch(data))

    def to_bytes(self) -> bytes:
        return batch_to_bytes(self.batch)

    @property
    def batch(self) -> pa.RecordBatch:
        """Return the rows as columns."""
        if self._batch is None:
            assert self._rows is not None
            self._batch = batch_of(self._rows.items())
        return self._batch

    @property
    def paths(self) -> pa.LargeStringArray:
        return self.batch.column(0)

    @property
    def rows(self) -> Rows:
        """Return the rows as Python objects, sorted, to look at: for small runs and for tests."""
        if self._rows is not None:
            return self._rows
        rows = dict(changes_of(self.batch))
        if self.is_small:
            self._rows = rows
        return rows

    @property
    def is_small(self) -> bool:
        return len(self) <= SMALL_ROWS_MAX

    @property
    def digest(self) -> bytes:
        """Return the digest of the content."""
        if not self._digest:
            self._digest = _digest(self._batch) if self._batch is not None else _digest_of_rows(self.rows)
        return self._digest

    def __len__(self) -> int:
        return len(self._rows) if self._rows is not None else int(self.batch.num_rows)

    def __contains__(self, path: str) -> bool:
        return path in self.rows if self.is_small else find(self.paths, path) is not None

    def get(self, path: str) -> Entry | None:
        """The entry; None is a tombstone. The path must exist."""
        if self.is_small:
            return self.rows[path]
        row = find(self.paths, path)
        assert row is not None, path
        return entry_at(self.batch, row)

    def changes(self) -> list[Change]:
        """Return the changes as Python objects: for small runs and for tests."""
        return list(self.rows.items())

    def live(self) -> npt.NDArray[np.bool_]:
        """Return which rows are no tombstones."""
        return np.asarray(self.batch.column(1).to_numpy(zero_copy_only=False), dtype=np.bool_)

    def without(self, paths: Sequence[str], prefixes: Sequence[str]) -> "Run":
        """The same run without these paths and without all that begins with these prefixes."""
        if self.is_small:
            begins, rows = tuple(prefixes), self.rows
            kept = [(path, rows[path]) for path in rows if path not in paths and not path.startswith(begins)]
            return self if len(kept) == len(rows) else Run.of(kept)
        drop = pc.is_in(self.paths, value_set=pa.array(paths, pa.large_string()))
        for prefix in prefixes:
            drop = pc.or_(drop, pc.starts_with(self.paths, prefix))
        return self if not pc.any(drop).as_py() else Run(self.batch.filter(pc.invert(drop)))


def bisect(paths: pa.LargeStringArray, path: str, side: str = "left") -> int:
    """Return the first row not before the path in sorted paths; for `right`, the first row after it."""
    return int(pc.search_sorted(paths, pa.scalar(path, pa.large_string()), side=side).as_py()) if len(paths) else 0


def find(paths: pa.LargeStringArray, path: str) -> int | None:
    """Return the row of a path in sorted paths, or None."""
    row = bisect(paths, path)
    return row if row < len(paths) and paths[row].as_py() == path else None


def merge_order(older: pa.LargeStringArray, newer: pa.LargeStringArray) -> npt.NDArray[np.int64]:
    """Return how to take rows from older + newer, so that they are sorted and only the newer of two equal paths
    remains.
    """
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


def _digest_of_rows(rows: Rows) -> bytes:
    """The same digest, without columns."""
    entries = [entry or TOMBSTONE for entry in rows.values()]
    digest = hashlib.sha256(len(rows).to_bytes(8, "big"))
    _add_texts(digest.update, list(rows))
    digest.update(bytes(entry is not None for entry in rows.values()))
    _add_texts(digest.update, [entry.address for entry in entries])
    digest.update(array("q", [entry.size for entry in entries]).tobytes())
    _add_texts(digest.update, [entry.etag for entry in entries])
    digest.update(array("q", [entry.mtime_ns for entry in entries]).tobytes())
    _add_texts(digest.update, [entry.content_type for entry in entries])
    _add_texts(digest.update, [entry.metadata for entry in entries])
    return digest.digest()[:16]


def _add_texts(add: Callable[[bytes], None], texts: Sequence[str]) -> None:
    encoded = [text.encode() for text in texts]
    add(array("q", map(len, encoded)).tobytes())
    add(b"".join(encoded))


def _values(column: pa.Array) -> memoryview:
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False)).data.cast("B")


def _text(column: pa.LargeStringArray) -> memoryview:
    """Return all strings of a column in a row."""
    _, offsets, data = column.buffers()
    if data is None:
        return memoryview(b"")
    where = np.frombuffer(offsets, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    return memoryview(data)[int(where[0]) : int(where[-1])]
