"""Columns of ranges in Arrow's memory: joined, chosen from, and as short as their values allow.

A column which repeats a few values (nearly always the content type, and metadata where there is none) is kept as a
**dictionary** from file to file: its values once, and a number for each row. Rows of it are read, chosen and written
without their text. Any other column is plain text or numbers. Both spell the same content: ids, boundaries and frames
do not depend on which of them it is.

A dictionary is kept only while its values are short together (`_FEW_BYTES`), because a range written out of a larger
table carries all of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl
import pyarrow as pa

__all__ = ["column_of", "columns_of", "joined", "narrowed", "plain", "rows_of", "table_with"]

_DICTIONARY: Final = pa.dictionary(pa.int32(), pa.string())
_FEW_BYTES: Final = 1024  # of the values of a dictionary, with their offsets
_NARROW_BYTES_MAX: Final = (1 << 31) - 1  # 32-bit offsets reach so far


def narrowed(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column out of a file as this type, or as a dictionary of few values. Raises ArrowException if it is neither."""
    if column.type.id == kind.id:  # of types without parameters that is all, and is found out at once
        return column
    if isinstance(column.type, pa.DictionaryType):
        for chunk in column.chunks:
            chunk.validate(full=True)  # a number without a value would be looked up outside the dictionary
        if column.num_chunks == 1 and column.type == _DICTIONARY and _has_few(column.chunk(0)):
            return column
        column = column.cast(column.type.value_type)
    return column.cast(kind)


def table_with(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    """A table of these columns, which says that no value is missing: a file then holds nothing about that."""
    schema = pa.schema([pa.field(name, column.type, nullable=False) for name, column in columns.items()])
    return pa.Table.from_arrays(list(columns.values()), schema=schema)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Join tables with the same columns into one piece."""
    return table_with({name: column_of(tables, name) for name in tables[0].column_names})


def column_of(tables: Sequence[pa.Table], name: str) -> pa.Array:
    """Return one column of all these tables, in one piece."""
    columns = [table.column(name) for table in tables]
    if _is_worth_a_dictionary(columns):
        both = _in_one_piece([_as_dictionary(column) for column in columns])
        return both if _has_few(both) else _plain(both)
    columns = [_plain(column) for column in columns]
    if columns[0].type not in (pa.string(), pa.large_string()):
        return _in_one_piece(columns)
    # With 32-bit offsets where they reach, because Arrow writes those in less time.
    is_narrow = sum(column.nbytes for column in columns) <= _NARROW_BYTES_MAX
    text = pa.string() if is_narrow else pa.large_string()
    return _in_one_piece([column if column.type == text else column.cast(text) for column in columns])


def _is_worth_a_dictionary(columns: Sequence[pa.ChunkedArray]) -> bool:
    """Return whether most rows have a dictionary already, and the others are short enough to get one."""
    had = sum(len(column) for column in columns if column.type == _DICTIONARY)
    is_short = all(column.type in (_DICTIONARY, pa.string()) for column in columns)
    return is_short and 0 < sum(map(len, columns)) <= 2 * had


def plain(table: pa.Table) -> pa.Table:
    """The same table without dictionaries."""
    if not any(isinstance(kind, pa.DictionaryType) for kind in table.schema.types):
        return table
    return table_with({name: _plain(table.column(name)) for name in table.column_names})


def _in_one_piece(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    chunks = [chunk for column in columns for chunk in column.chunks]
    if len(chunks) == 1:
        return chunks[0]
    # Dictionaries become one here.
    return pa.concat_arrays(chunks) if chunks else pa.array([], columns[0].type)


def _as_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if column.type == _DICTIONARY else column.dictionary_encode()


def _has_few(array: Any) -> bool:
    return bool(array.dictionary.nbytes <= _FEW_BYTES)


def _plain(column: Any) -> Any:
    """A column or an array without its dictionary."""
    if not isinstance(column.type, pa.DictionaryType):
        return column
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    bytes_max = sum(len(chunk) * chunk.dictionary.nbytes for chunk in chunks)
    return column.cast(pa.string() if bytes_max <= _NARROW_BYTES_MAX else pa.large_string())


def rows_of(frame: pl.DataFrame, *names: str) -> Iterator[tuple[Any, ...]]:
    """Return rows of some columns. A `select` costs more than the rows of a node, since Polars plans it first."""
    return zip(*(frame.get_column(name).to_list() for name in names), strict=True)


def columns_of(frame: pl.DataFrame, names: Iterable[str]) -> pa.Table:
    """Return some columns as a table; without a `select` too."""
    return pa.table({name: frame.get_column(name).rechunk().to_arrow() for name in names})
