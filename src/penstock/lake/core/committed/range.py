"""Ranges: a run of entries as one Parquet file, named by its content.

The **range id** is the digest of the rows (`digest.py`), every stored column included, so equal ids mean equal entries
in the same order, and the bytes of the Parquet file do not matter. Reading checks it: a file which does not hold what
its name says is never used. Plain Parquet without nested types: Spark, DuckDB and Polars read it as it is.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NewType

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.kernel.errors import ObjectStoreFailed
from penstock.lake.core.committed.columns import joined, narrowed, plain
from penstock.lake.core.committed.digest import digest_parts, digest_table
from penstock.lake.core.committed.entry import ENTRY_SCHEMA

__all__ = [
    "NARROW_ENTRIES",
    "EncodedRange",
    "RangeId",
    "compact",
    "decode_range",
    "encode_range",
    "encode_ranges",
    "frame_of",
    "narrow_schema",
    "other_content",
    "range_id",
    "read_parquet",
    "read_range",
    "settings_of",
    "table_of",
    "write_parquet",
]

RangeId = NewType("RangeId", str)  # 64 hexadecimal digits
Data = bytes | memoryview

_TAG: Final = "penstock range 2"
_DICTIONARIES: Final = ["content_type", "metadata"]  # of entries
_REPEATING: Final = [*_DICTIONARIES, "location", "pack", "kind"]  # a dictionary pays for these alone
_SORTED: Final = ["path", "min_key", "max_key"]  # their statistics help a reader to skip
_WRITE_ROWS: Final = 8192  # handed to a column at once: most ranges have less, and a call costs more than its rows
_NARROW: Final = {pl.String(): pa.string(), pl.Int64(): pa.int64()}


def narrow_schema(schema: pl.Schema) -> pa.Schema:
    """The same for Arrow, with 32-bit offsets."""
    return pa.schema([pa.field(name, _NARROW[kind]) for name, kind in schema.items()])


NARROW_ENTRIES: Final = narrow_schema(ENTRY_SCHEMA)


class EncodedRange(msgspec.Struct, frozen=True):
    """A range ready to be stored, and what a metarange says about it."""

    id: RangeId
    min_key: str
    max_key: str
    count: int
    size: int  # of all objects in it, together
    table: pa.Table

    def to_parquet(self) -> memoryview:
        """The file. Costs most of the work, so a range which is stored already is never asked for it."""
        return write_parquet(self.table)


def encode_range(entries: pl.DataFrame) -> EncodedRange:
    """A range of these entries, of which there is at least one."""
    return encode_ranges(table_of(entries), [entries.height])[0]


def encode_ranges(table: pa.Table, ends: Sequence[int]) -> list[EncodedRange]:
    """Entries in one piece as ranges which end at these rows, each with at least one: slices, which copy nothing."""
    if not ends:
        return []
    starts = [0, *ends[:-1]]
    assert all(start < end for start, end in zip(starts, ends, strict=True))
    ids = digest_parts(_TAG, table, ENTRY_SCHEMA.names(), ends)
    sizes = np.add.reduceat(table.column("size").to_numpy(), starts).tolist()
    paths = table.column("path")
    return [
        EncodedRange(
            id=RangeId(name),
            min_key=paths[start].as_py(),
            max_key=paths[end - 1].as_py(),
            count=end - start,
            size=size,
            table=table.slice(start, end - start),
        )
        for name, start, end, size in zip(ids, starts, ends, sizes, strict=True)
    ]


def range_id(table: pa.Table) -> RangeId:
    return RangeId(digest_table(_TAG, table, ENTRY_SCHEMA.names()))


def decode_range(data: Data, expected: RangeId) -> pl.DataFrame:
    """Return the entries in a file, if they are the ones that the id names."""
    return frame_of(read_range(data, expected))


def read_range(data: Data, expected: RangeId) -> pa.Table:
    """The same as a table, in which columns may be dictionaries (`columns.py`)."""
    table = read_parquet(data, NARROW_ENTRIES, expected, dictionaries=_DICTIONARIES)
    actual = range_id(table)
    if actual != expected:
        raise other_content(f"range {expected} holds other entries: their id is {actual}")
    return table


def other_content(problem: str) -> ObjectStoreFailed:
    """The error for a file which is not what its name says."""
    step = "restore the file; if it is undamaged, the lake is older than today's ids (see CHANGELOG): create it again"
    return ObjectStoreFailed(problem, retryable=False, next_step=step)


def write_parquet(table: pa.Table, *, checksums: bool = False) -> memoryview:
    """A table as one Parquet file. Nothing but its size depends on the settings here."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, write_page_checksum=checksums, **settings_of(table.schema))
    return memoryview(sink.getvalue())


@lru_cache(maxsize=16)
def settings_of(schema: pa.Schema) -> dict[str, Any]:
    """Return the settings of the Parquet writer. They are cached: finding them costs as much as writing 100 rows."""
    numbers = [field.name for field in schema if field.type == pa.int64()]
    repeating = [name for name in _REPEATING if name in schema.names]
    text = [name for name in schema.names if name not in (*numbers, *repeating)]
    return {
        "store_schema": False,
        "use_dictionary": repeating,
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        "compression": dict.fromkeys(schema.names, "none") | dict.fromkeys(text, "zstd"),
        "compression_level": dict.fromkeys(text, 1),
        "write_statistics": [name for name in _SORTED if name in schema.names],
        "write_batch_size": _WRITE_ROWS,
    }


def read_parquet(
    data: Data, schema: pa.Schema, name: str, *, dictionaries: Sequence[str] = (), checksums: bool = False
) -> pa.Table:
    """A table with the columns of that schema out of a file, or `ObjectStoreFailed` if the file is none."""
    try:
        # Not in parallel: a range is small, and a reader of many ranges has its own threads.
        reader = pa.BufferReader(data)
        file = pq.ParquetFile(reader, read_dictionary=dictionaries, page_checksum_verification=checksums)
        found = file.read(use_threads=False)
        table = pa.table([narrowed(found.column(field.name), field.type) for field in schema], schema.names)
        table.validate()
    except (pa.ArrowException, KeyError, OSError) as error:
        raise ObjectStoreFailed(f"{name} is not the Parquet file it should be: {error}", retryable=False) from error
    if any(column.null_count for column in table.columns):
        raise ObjectStoreFailed(f"{name} is not the Parquet file it should be: a value is missing", retryable=False)
    return table


def frame_of(table: pa.Table) -> pl.DataFrame:
    """A table as a frame. Text is not copied, but for that of dictionaries."""
    frame = pl.from_arrow(plain(table))
    assert isinstance(frame, pl.DataFrame)
    return frame


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows without the text of others: a few rows taken out of a range hold on to all the range's text."""
    return frame_of(table_of(frame))


def table_of(frame: pl.DataFrame) -> pa.Table:
    """A frame as a table in one piece."""
    # Column by column: for a whole frame Polars wakes its own threads, and a caller with many frames has threads
    # already.
    return joined([pa.table([column.rechunk().to_arrow() for column in frame.iter_columns()], frame.columns)])
