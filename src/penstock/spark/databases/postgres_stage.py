"""What tasks do to PostgreSQL: they copy rows into a stage, under the id of their attempt. Design: spark-2.md P7.

Nothing in a stage counts until the driver takes it. An attempt that fails half-way leaves rows under an id that no
answer names.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
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
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.kernel.extras import extra
from penstock.spark.databases.postgres_rule import name_of, names

__all__ = ["CopyAttempt", "connect", "create_stage", "create_table", "sql_type"]

SIMPLE: Final[dict[type[DataType], str]] = {
    BinaryType: "bytea",
    BooleanType: "boolean",
    ByteType: "smallint",
    DateType: "date",
    DoubleType: "double precision",
    FloatType: "real",
    IntegerType: "integer",
    LongType: "bigint",
    ShortType: "smallint",
    StringType: "text",
    TimestampNTZType: "timestamp",
    TimestampType: "timestamptz",
}


def connect(url: str) -> Any:
    """Open a connection; a URL of SQLAlchemy is taken too."""
    with extra("postgresql", "postgres(...)"):
        import psycopg

    return psycopg.connect(
        url.replace("postgresql+psycopg://", "postgresql://", 1), autocommit=True, connect_timeout=10
    )


def sql_type(kind: DataType) -> str:
    """Return the type of a column: structs, arrays and maps are jsonb."""
    if isinstance(kind, DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    return SIMPLE.get(type(kind), "jsonb")


def create_table(connection: Any, table: str, schema: StructType, keys: Sequence[str]) -> None:
    """Make a table that is missing. One that exists stays as it is, and PostgreSQL checks each row."""
    columns = [f"{name_of(field.name)} {sql_type(field.dataType)}" for field in schema.fields]
    if keys:
        columns.append(f"PRIMARY KEY ({names(keys)})")
    connection.execute(f"CREATE TABLE IF NOT EXISTS {name_of(table)} ({', '.join(columns)})")


def create_stage(connection: Any, stage: str, schema: StructType) -> None:
    columns = [f"{name_of(field.name)} {sql_type(field.dataType)}" for field in schema.fields]
    columns += ["_attempt text NOT NULL", "_n bigserial"]
    connection.execute(f"CREATE UNLOGGED TABLE {name_of(stage)} ({', '.join(columns)})")


class CopyAttempt:
    """One attempt of a task: it copies batches into a stage."""

    def __init__(self, connection: Any, stage: str, attempt: str) -> None:
        self.rows = 0
        self._connection = connection
        self._stage = stage
        self._attempt = attempt

    def add(self, batch: pa.RecordBatch) -> None:
        columns = [_plain(batch.column(at)) for at in range(batch.num_columns)]
        copy_into = f"COPY {name_of(self._stage)} ({names([*batch.schema.names, '_attempt'])}) FROM STDIN"
        with self._connection.cursor() as cursor, cursor.copy(copy_into) as copy:
            for row in zip(*columns, strict=True):
                copy.write_row((*row, self._attempt))
        self.rows += batch.num_rows


def _plain(column: pa.Array) -> list[Any]:
    """Return the values of a column; nested ones as JSON."""
    values: list[Any] = column.to_pylist()
    if not pa.types.is_nested(column.type):
        return values
    return [None if each is None else json.dumps(each, default=str) for each in values]
