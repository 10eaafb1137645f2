"""The format `lake`: DataFrames into tables of the lake, in batches and streams; and small tables back.

    df.write.format("lake").mode("append").save("lake://shop@main/orders")
    stream.writeStream.format("lake").option("checkpointLocation", …).start("lake://shop@main/orders")

Options: `sink` (a name which outlives checkpoints), `txn` (makes a rerun of a batch job do nothing), `partitionBy`,
`pipeline`, `message`, `base` (of a rewrite: the commit that was read, or `any`); `lake`, `access_key_id`,
`secret_access_key` say which lake. Large tables are read by `penstock.spark.read_table`, with Spark's own reader.
Design: spark.md.
"""

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
)
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    MapType,
    NullType,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from penstock.kernel.errors import InvalidArgument
from penstock.lake.client.lake import LakeUrl
from penstock.lake.records.sink_batch import ANY_BASE
from penstock.spark.tables.lake_access import access_from, table_url
from penstock.spark.tables.lake_reader import LakeReader, spark_schema
from penstock.spark.tables.lake_sink import BatchSink, SinkSettings, StreamSink
from penstock.spark.tables.lake_stream import LakeStreamReader
from penstock.spark.tables.lake_tree import place_at
from penstock.spark.versions import DataSourceStreamArrowWriter

__all__ = ["LakeFormat"]

_NOT_KEPT = (
    CalendarIntervalType,
    DayTimeIntervalType,
    NullType,
    VariantType,
    YearMonthIntervalType,
)


class LakeFormat(DataSource):
    """`spark.read.format("lake")`, and the same for writers and streams."""

    @classmethod
    def name(cls) -> str:
        return "lake"

    def schema(self) -> StructType:
        return spark_schema(access_from(self.options), table_url(_path(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        return LakeReader(access_from(self.options), table_url(_path(self.options)), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        ignores = self.options.get("ignoredeletes", "false").lower() == "true"
        access, target = access_from(self.options), table_url(_path(self.options))
        limit = self.options.get("maxbytespertrigger", "")
        if limit and not (limit.isdecimal() and int(limit)):
            raise InvalidArgument(f"option maxBytesPerTrigger: {limit!r}: expected a number of at least 1")
        return LakeStreamReader(
            access, target, schema, ignores_deletes=ignores, max_bytes=int(limit) if limit else None
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return BatchSink(self._settings(schema, overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return StreamSink(self._settings(schema, overwrite=overwrite), schema)

    def _settings(self, schema: StructType, *, overwrite: bool) -> SinkSettings:
        check_types(schema)
        options = self.options
        columns = tuple(name.strip() for name in options.get("partitionby", "").split(",") if name.strip())
        missing = [name for name in columns if name not in schema.names]
        if missing:
            raise InvalidArgument(f"partitionBy names {', '.join(missing)}: there is no such column")
        return SinkSettings(
            target=table_url(_path(options)),
            access=access_from(options),
            sink=options.get("sink", ""),
            txn=options.get("txn", ""),
            replaces=overwrite,
            partition_by=columns,
            checkpoint=options.get("checkpointlocation", ""),
            pipeline=options.get("pipeline", ""),
            message=options.get("message", ""),
            base=_base(options),
        )


def check_types(schema: StructType, *, where: str = "") -> None:
    """Refuse a column that Parquet cannot keep or Spark cannot read back, with `where` and its name."""
    for field in schema.fields:
        wrong = _not_kept(field.dataType)
        if wrong is not None:
            raise InvalidArgument(
                f"{where}column {field.name}: the lake keeps no {wrong.simpleString()}; "
                "cast it, as to a string or a long"
            )


def _not_kept(kind: DataType) -> DataType | None:
    match kind:
        case ArrayType():
            return _not_kept(kind.elementType)
        case MapType():
            return _not_kept(kind.keyType) or _not_kept(kind.valueType)
        case StructType():
            return next((wrong for field in kind.fields if (wrong := _not_kept(field.dataType)) is not None), None)
        case _:
            return kind if isinstance(kind, _NOT_KEPT) else None


def _base(options: Mapping[str, str]) -> str:
    """Return the commit that a rewrite was made from: `base` may be any ref, which is resolved now."""
    base = options.get("base", "")
    if base in ("", ANY_BASE):
        return base
    return place_at(access_from(options), LakeUrl(table_url(_path(options)).repository, base)).commit


def _path(options: Mapping[str, str]) -> str:
    path = options.get("path", "")
    if not path:
        raise InvalidArgument("which table? Say it as path, like lake://shop@main/orders")
    return path
