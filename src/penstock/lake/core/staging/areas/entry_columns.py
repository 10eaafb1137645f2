"""Entries as columns. Design: lake.md L4.

A batch of changes is one Arrow record batch of `SCHEMA`: a row with `is_live` false is a tombstone. No column has
nulls, so that equal rows are equal bytes on every member. Paths sort by code point, which is the order of their UTF-8
bytes: in Python, in Arrow and in Parquet alike.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.lake.core.staging.entry import Change, Entry

__all__ = [
    "SCHEMA",
    "TOMBSTONE",
    "MalformedBatch",
    "batch_of",
    "batch_to_bytes",
    "changes_of",
    "entries_at",
    "entry_at",
    "read_batch",
]

SCHEMA = pa.schema(
    [
        pa.field("path", pa.large_string(), nullable=False),
        pa.field("is_live", pa.bool_(), nullable=False),
        pa.field("address", pa.large_string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("etag", pa.large_string(), nullable=False),
        pa.field("mtime_ns", pa.int64(), nullable=False),
        pa.field("content_type", pa.large_string(), nullable=False),
        pa.field("metadata", pa.large_string(), nullable=False),
    ]
)
TOMBSTONE = Entry("")  # what the columns of a row which is not live hold


class MalformedBatch(ValueError):
    """The bytes are no batch of entries. Its text is the same on every member."""


def batch_of(changes: Iterable[Change]) -> pa.RecordBatch:
    """Rows as columns, in the order given."""
    rows = list(changes)
    entries = [entry or TOMBSTONE for _, entry in rows]
    columns: Sequence[Sequence[object]] = [
        [path for path, _ in rows],
        [entry is not None for _, entry in rows],
        [entry.address for entry in entries],
        [entry.size for entry in entries],
        [entry.etag for entry in entries],
        [entry.mtime_ns for entry in entries],
        [entry.content_type for entry in entries],
        [entry.metadata for entry in entries],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def changes_of(batch: pa.RecordBatch) -> Iterator[Change]:
    """Columns as rows."""
    columns = (column.to_pylist() for column in batch.columns)
    for path, is_live, *values in zip(*columns, strict=True):
        yield path, Entry(*values) if is_live else None


def entry_at(batch: pa.RecordBatch, row: int) -> Entry | None:
    """Return one row as an entry; None is a tombstone."""
    if not batch.column(1)[row].as_py():
        return None
    return Entry(*(batch.column(number)[row].as_py() for number in range(2, 8)))


def entries_at(batch: pa.RecordBatch, rows: list[int]) -> list[Entry]:
    """Some live rows as entries."""
    columns = batch.select(SCHEMA.names[2:]).take(pa.array(rows, pa.int64())).columns
    return [Entry(*values) for values in zip(*(column.to_pylist() for column in columns), strict=True)]


def batch_to_bytes(batch: pa.RecordBatch) -> bytes:
    """Return a batch as an Arrow IPC stream, the form in a columnar PUT and a checkpoint."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def read_batch(data: bytes) -> pa.RecordBatch:
    """The batch in an IPC stream, sorted by path, or `MalformedBatch`: whatever the bytes are, nothing else."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
        table.validate(full=True)
        if not table.schema.equals(SCHEMA):
            table = table.select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, ValueError, KeyError, OSError):
        raise MalformedBatch("not a batch of entries") from None
    if table.num_rows == 0:
        return pa.RecordBatch.from_pylist([], schema=SCHEMA)
    (batch,) = table.combine_chunks().to_batches()
    return _sorted(batch)


def _sorted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Sorted by path, each path once."""
    if any(column.null_count for column in batch.columns):
        raise MalformedBatch("a column has nulls")
    if not _is_rising(batch.column(0)):
        batch = batch.take(pc.array_sort_indices(batch.column(0)))
        if not _is_rising(batch.column(0)):
            raise MalformedBatch("a path comes twice in a batch")
    if batch.column(0)[0].as_py() == "":
        raise MalformedBatch("a path is empty")
    return batch


def _is_rising(paths: pa.Array) -> bool:
    return len(paths) < 2 or bool(pc.all(pc.less(paths[:-1], paths[1:])).as_py())
