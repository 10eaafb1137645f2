"""The schema of a Parquet file, from its footer: as Spark would find it, without a job to find it with.

Spark looks into a file by a job of one task, which takes longer than to ask the lake. So footers of files on this
machine are read here. What always holds: the answer is Spark's own, or none, and then Spark is asked: for columns in
parts, for types which settings of the session decide about, and for files which lie elsewhere.
"""

import json
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = ["footer_schema"]

HERE: Final = "file:///"
SPARKS_OWN: Final = b"org.apache.spark.sql.parquet.row.metadata"  # where Spark writes the schema of a DataFrame
_PLAIN: Final[dict[str, DataType]] = {
    "BOOLEAN": BooleanType(),
    "INT32": IntegerType(),
    "INT64": LongType(),
    "FLOAT": FloatType(),
    "DOUBLE": DoubleType(),
}
_INTEGERS: Final[dict[int, DataType]] = {8: ByteType(), 16: ShortType(), 32: IntegerType(), 64: LongType()}


def footer_schema(url: str) -> StructType | None:
    """The schema, if it is certain."""
    if not url.startswith(HERE):
        return None
    try:
        footer = pq.read_metadata(unquote(urlsplit(url).path))
        written = (footer.metadata or {}).get(SPARKS_OWN)
        if written is not None:
            return _nullable(StructType.fromJson(json.loads(written)))
    except (OSError, pa.ArrowException, LookupError, TypeError, ValueError, PySparkException):
        return None  # Spark reports the problem
    columns = [footer.schema.column(number) for number in range(footer.num_columns)]
    kinds = [_kind(column) for column in columns]
    if not columns or None in kinds:
        return None
    return StructType([StructField(column.name, kind) for column, kind in zip(columns, kinds, strict=True) if kind])


def _nullable(schema: StructType) -> StructType | None:
    """Return the schema as Spark reads it after it wrote it: every column may be null."""
    is_flat = all(type(field.dataType) in _FLAT for field in schema)
    return (
        StructType([StructField(field.name, field.dataType, True, field.metadata) for field in schema])
        if is_flat
        else None
    )


_FLAT: Final = {
    *(type(kind) for kind in (*_PLAIN.values(), *_INTEGERS.values())),
    StringType,
    DateType,
    DecimalType,
    TimestampType,
}


def _kind(column: Any) -> DataType | None:
    """The type of a column which is not within another one."""
    logical = column.logical_type
    if column.path != column.name or column.max_repetition_level or column.max_definition_level > 1:
        return None
    if logical.type == "NONE":
        return _PLAIN.get(column.physical_type)  # bytes without a name are texts to some sessions
    said = json.loads(logical.to_json())
    match logical.type:
        case "STRING":
            return StringType()
        case "DATE":
            return DateType()
        case "DECIMAL":
            return DecimalType(column.precision, column.scale)
        case "INT" if said["isSigned"]:
            return _INTEGERS[said["bitWidth"]]
        case "TIMESTAMP" if said["isAdjustedToUTC"] and said["timeUnit"] in ("microseconds", "milliseconds"):
            return TimestampType()
    return None
