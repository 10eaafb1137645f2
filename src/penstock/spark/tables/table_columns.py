"""Keep the columns of a plain table, compare each batch with them, and add new ones. Design: spark-2.md T3.

    <table>/_penstock_schema.json        {"columns": <Spark's schema as JSON>, "format": 1}

Invariants: each file that a sink adds has all columns of its table, in their types; a column that a batch leaves out is
null. A batch names the ETag of the schema that it was made for, and the lake refuses it after another writer has
changed the schema. So two writers cannot add one column in two types. A table that has no such file gets one by the
next batch, made from its newest Parquet file.
"""

import hashlib
import io
import secrets
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
)

from penstock.kernel.errors import FormatTooNew, InvalidArgument, NotFound
from penstock.lake.client.lake import LakeUrl
from penstock.lake.records.sink_batch import TABLE_SCHEMA, BatchFile, BatchTable, staged_address
from penstock.spark.tables.lake_access import LakeAccess
from penstock.spark.tables.lake_tree import files_of, place_at
from penstock.spark.tables.staging_place import StagingPlace
from penstock.spark.versions import from_arrow, to_arrow

__all__ = ["TablePlan", "columns_at", "conformed", "merged_columns", "plan_table"]

FORMAT: Final = 1
_WIDER: Final[tuple[tuple[type[DataType], ...], ...]] = (
    (ByteType, ShortType, IntegerType, LongType),
    (FloatType, DoubleType),
)


class TablePlan(msgspec.Struct, frozen=True):
    """What a batch does about a table's columns."""

    prefix: str
    columns: str  # of its files: a StructType as JSON
    etag: str  # of the schema that the table has; empty: none
    replaces: bool = False

    @property
    def arrow(self) -> Any:
        """Return the Arrow schema of the batch's files."""
        return to_arrow(_schema_of(self.columns))

    def table(self, place: StagingPlace, files: tuple[BatchFile, ...], base: str = "") -> BatchTable | None:
        """Return what the batch does to the table; None if nothing. Writes the schema if it is a new one."""
        if not files and not self.replaces:
            return None
        data = _file_of(self.columns)
        etag, path = _etag(data), self.prefix + TABLE_SCHEMA
        if self.replaces or etag != self.etag:
            address = staged_address(place.place.data, secrets.token_hex(12), 0)
            place.put_file(address, memoryview(data))
            files = (*files, BatchFile(path, address, len(data), etag))
        expects = () if self.replaces else ((path, self.etag),)
        ordered = tuple(sorted(files, key=lambda each: each.path))
        return BatchTable(self.prefix, ordered, self.replaces, expects, base)


def plan_table(
    access: LakeAccess, target: LakeUrl, frame: StructType, *, replaces: bool = False, where: str = ""
) -> TablePlan:
    """Compare a DataFrame's columns with its table's; refuse types that contradict them."""
    etag, known = ("", None) if replaces else _known_columns(access, target)
    columns = merged_columns(known, frame, where=where or f"lake://{target.repository}@{target.ref}/{target.path}: ")
    return TablePlan(target.path, columns.json(), etag, replaces)


def conformed(rows: pa.RecordBatch, schema: Any) -> pa.RecordBatch:
    """Return rows with all columns of a table, in its order and types."""
    if rows.schema.equals(schema):
        return rows
    columns = []
    for field in schema:
        at = rows.schema.get_field_index(field.name)
        columns.append(pa.nulls(rows.num_rows, field.type) if at < 0 else rows.column(at).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def merged_columns(table: StructType | None, frame: StructType, *, where: str) -> StructType:
    """Return the table's columns, widened and followed by the new ones of a DataFrame."""
    wanted = _plain(frame)
    assert isinstance(wanted, StructType)
    if table is None:
        return wanted
    new = {field.name: field for field in wanted.fields}
    lower = {name.lower(): name for name in table.names}
    for name in new:
        if name not in table.names and name.lower() in lower:
            raise InvalidArgument(
                f"{where}column {name} differs from the table's column {lower[name.lower()]} by case alone",
                next_step=f"name it {lower[name.lower()]}",
            )
    kept = []
    for field in table.fields:
        kind = new[field.name].dataType if field.name in new else field.dataType
        wider = _wider(field.dataType, kind)
        if wider is None:
            raise InvalidArgument(
                f"{where}column {field.name} is {field.dataType.simpleString()} in the table, and "
                f"{kind.simpleString()} here",
                next_step="cast it, or give it another name",
            )
        kept.append(StructField(field.name, wider))
    added = [field for field in wanted.fields if field.name not in table.names]
    return StructType(kept + added)


def _wider(one: DataType, other: DataType) -> DataType | None:
    """Return the type that holds both, if every reader of Parquet can read both as that."""
    if one == other:
        return one
    for row in _WIDER:
        if type(one) in row and type(other) in row:
            return max(one, other, key=lambda each: row.index(type(each)))
    if isinstance(one, DecimalType) and isinstance(other, DecimalType) and one.scale == other.scale:
        return max(one, other, key=lambda each: each.precision)
    return None


def _known_columns(access: LakeAccess, target: LakeUrl) -> tuple[str, StructType | None]:
    """Return the ETag of a table's schema, and its columns; None if it has no rows."""
    at = LakeUrl(target.repository, place_at(access, target).commit, target.path)
    try:
        etag = str(access.ask("GET", f"{at.ref_api}/objects/stat", path=at.path + TABLE_SCHEMA)["checksum"])
    except NotFound:
        return "", _newest_columns(access, at)
    return etag, columns_at(access, at, etag)


def columns_at(access: LakeAccess, at: LakeUrl, etag: str) -> StructType:
    """Return the columns that a table has in a commit, from its file with this ETag."""
    if etag not in _seen:
        path = LakeUrl(at.repository, at.ref, at.path + TABLE_SCHEMA)
        found = msgspec.json.decode(access.read(path))
        if found["format"] != FORMAT:
            raise FormatTooNew(f"{path.path} has format {found['format']}, and this release reads {FORMAT}")
        _seen[etag] = StructType.fromJson(found["columns"])
    return _seen[etag]


_seen: Final[dict[str, StructType]] = {}  # by their ETags, which are digests of the content


def _newest_columns(access: LakeAccess, at: LakeUrl) -> StructType | None:
    found = files_of(access, at)
    if not found.files:
        return None
    data = access.read(LakeUrl(at.repository, at.ref, found.newest.path))
    columns = _plain(from_arrow(pq.read_schema(io.BytesIO(data)).remove_metadata(), ntz=True))
    assert isinstance(columns, StructType)
    return columns


def _plain(kind: DataType) -> DataType:
    """Return a type whose parts may all be null."""
    match kind:
        case StructType():
            return StructType([StructField(field.name, _plain(field.dataType)) for field in kind.fields])
        case ArrayType():
            return ArrayType(_plain(kind.elementType))
        case MapType():
            return MapType(_plain(kind.keyType), _plain(kind.valueType))
        case _:
            return kind


def _schema_of(columns: str) -> StructType:
    return StructType.fromJson(msgspec.json.decode(columns))


def _file_of(columns: str) -> bytes:
    return msgspec.json.encode({"columns": msgspec.json.decode(columns), "format": FORMAT}, order="sorted")


def _etag(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
