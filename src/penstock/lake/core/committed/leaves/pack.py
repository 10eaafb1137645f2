"""Packs: files of leaves, and index packs of nodes. Plain Parquet whose row groups hold whole leaves, or one node each.

Neighbours in the tree share a row group up to `GROUP_ROWS` rows, because a row group costs as much as 400 rows to write
and 500 bytes of footer. The name of a pack says how long it is, so that its footer is found without asking.
"""

import mmap
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from penstock.kernel.errors import DataDamaged
from penstock.lake.core.committed.columns import joined
from penstock.lake.core.committed.metarange import Location
from penstock.lake.core.committed.range import Data, settings_of

__all__ = [
    "GROUP_ROWS",
    "PACK_ROWS",
    "Packer",
    "Sealed",
    "encode_pack",
    "footer_of",
    "group_starts",
    "pack_bytes",
    "pack_key",
    "read_groups",
    "sparse",
]

GROUP_ROWS: Final = 1024
PACK_ROWS: Final = 262_144


class Sealed(msgspec.Struct, frozen=True):
    """A pack that is full, or the last one: its rows in order, and how many each row group has."""

    number: int
    tables: list[pa.Table]
    groups: list[int]
    parts: int  # leaves, or nodes


class Packer:
    """Assigns places to leaves. Pure: `add` returns the packs that are ready to be encoded."""

    def __init__(self, group_rows: int = GROUP_ROWS, pack_rows: int = PACK_ROWS) -> None:
        self._group_rows = group_rows
        self._pack_rows = pack_rows
        self._number = 0
        self._begin()
        self.places: list[tuple[int, int, int]] = []  # of each leaf added: number of its pack, row group, first row

    def _begin(self) -> None:
        self._tables: list[pa.Table] = []
        self._groups: list[int] = []
        self._rows = 0
        self._parts = 0

    def add(self, table: pa.Table, counts: Sequence[int], *, neighbours: Sequence[bool] = ()) -> list[Sealed]:
        """Add leaves with these counts of rows; `neighbours` tells which of them follow the leaf before in the tree."""
        sealed: list[Sealed] = []
        start = at = 0
        for row, count in enumerate(counts):
            if self._rows + count > self._pack_rows and self._rows:
                self._take(table, start, at)
                sealed += self.seal()
                start = at
            shares = bool(self._groups) and bool(neighbours) and neighbours[row]
            if shares and self._groups[-1] + count <= self._group_rows:
                self._groups[-1] += count
            else:
                self._groups.append(count)
            self.places.append((self._number, len(self._groups) - 1, self._rows))
            self._rows += count
            self._parts += 1
            at += count
        self._take(table, start, at)
        return sealed

    def _take(self, table: pa.Table, start: int, end: int) -> None:
        if end > start:
            self._tables.append(table.slice(start, end - start))

    def seal(self) -> list[Sealed]:
        """Return the pack under way, if it has rows, and begin another one."""
        if not self._rows:
            return []
        sealed = Sealed(self._number, self._tables, self._groups, self._parts)
        self._number += 1
        self._begin()
        return [sealed]


def encode_pack(pack: Sealed) -> memoryview:
    """Return the pack as a file."""
    table = joined(pack.tables)
    sink = pa.BufferOutputStream()
    settings = {**settings_of(table.schema), "write_statistics": False}
    with pq.ParquetWriter(sink, table.schema, **settings) as writer:
        start = 0
        for rows in pack.groups:
            writer.write_table(table.slice(start, rows), row_group_size=rows)
            start += rows
    return memoryview(sink.getvalue())


def pack_key(location: Location, kind: str, data: Data) -> str:
    """Return the key of a pack, which has its kind, a digest of its bytes, and their number.

    >>> pack_key(Location("_penstock/00000001/a"), "pack", b"...")
    '_penstock/00000001/a/pack-2f1145ba82db2038-3.parquet'
    """
    return f"{location}/{kind}-{blake3(data).hexdigest(length=8)}-{len(data)}.parquet"


def pack_bytes(key: str) -> int:
    """Return how long a pack is, by its key."""
    return int(key.rpartition("-")[2].removesuffix(".parquet"))


def footer_of(key: str, tail: memoryview) -> pq.FileMetaData | int:
    """Return the footer at the end of a pack; if the tail is shorter than it, how many bytes it has."""
    if len(tail) < 8 or bytes(tail[-4:]) != b"PAR1":
        raise broken(key, "it does not end as a Parquet file does")
    size = int.from_bytes(tail[-8:-4], "little") + 8
    if size > pack_bytes(key):
        raise broken(key, "its footer is longer than the file")
    if size > len(tail):
        return size
    try:
        return pq.read_metadata(pa.BufferReader(tail))
    except (pa.ArrowException, OSError) as error:
        raise broken(key, str(error)) from error


def group_starts(footer: pq.FileMetaData) -> list[int]:
    """Return the number of rows before each row group, and before the end."""
    starts = [0]
    for group in range(footer.num_row_groups):
        starts.append(starts[-1] + footer.row_group(group).num_rows)
    return starts


def group_bytes(key: str, footer: pq.FileMetaData, group: int) -> tuple[int, int]:
    """Return where the bytes of a row group begin and end."""
    if not 0 <= group < footer.num_row_groups:
        raise broken(key, f"it has {footer.num_row_groups} row groups, and no number {group}")
    end = _begin_of(footer, group + 1) if group + 1 < footer.num_row_groups else pack_bytes(key)
    return _begin_of(footer, group), end


def _begin_of(footer: pq.FileMetaData, group: int) -> int:
    column = footer.row_group(group).column(0)
    first = column.dictionary_page_offset
    return int(column.data_page_offset if first is None else min(first, column.data_page_offset))


def sparse(key: str, pieces: Mapping[int, memoryview]) -> pa.Buffer:
    """Return the bytes of a pack of which only some were read, each in its place. The rest takes no memory."""
    memory = mmap.mmap(-1, max(1, pack_bytes(key)))
    for start, piece in pieces.items():
        memory[start : start + len(piece)] = piece
    return pa.py_buffer(memory)


def read_groups(
    key: str, data: pa.Buffer, footer: pq.FileMetaData, groups: Sequence[int], schema: pa.Schema
) -> pa.Table:
    """Return the rows of some row groups, in order, with the columns of that schema."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data), metadata=footer)
        found = file.read_row_groups(groups, use_threads=False)
        table = pa.table([found.column(field.name).cast(field.type) for field in schema], schema.names)
        table.validate()
    except (pa.ArrowException, KeyError, OSError) as error:
        raise broken(key, str(error)) from error
    if any(column.null_count for column in table.columns):
        raise broken(key, "a value is missing")
    return table


def broken(key: str, why: str) -> DataDamaged:
    """Return the error for a pack that cannot be read as what its tree says."""
    return DataDamaged(f"{key} is not the pack that the tree names: {why}", next_step="restore the file from a copy")
