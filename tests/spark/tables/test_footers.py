"""Schemas from footers are those which Spark finds."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from penstock.spark.tables.footers import SPARKS_OWN, footer_schema

CERTAIN = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(),
    pa.large_string(), pa.date32(), pa.decimal128(9, 2), pa.decimal128(23, 2), pa.timestamp("us", "UTC"),
    pa.timestamp("ms", "Europe/Prague"),
]  # fmt: skip
LEFT = [
    pa.binary(), pa.uint8(), pa.uint64(), pa.timestamp("us"), pa.time64("us"), pa.list_(pa.int64()),
    pa.struct([("n", pa.int64())]), pa.map_(pa.string(), pa.int64()), pa.float16(),
]  # fmt: skip


def written(path: Path, schema: Any) -> str:
    pq.write_table(schema.empty_table(), path)
    return path.as_uri()


def test_certain_types_are_those_which_spark_finds(spark: SparkSession, tmp_path: Path) -> None:
    fields = [pa.field(f"c{number}", kind, nullable=number % 2 == 0) for number, kind in enumerate(CERTAIN)]
    url = written(tmp_path / "certain.parquet", pa.schema(fields))
    assert footer_schema(url) == spark.read.parquet(url).schema


@pytest.mark.parametrize("kind", LEFT, ids=str)
def test_other_types_are_left_to_spark(tmp_path: Path, kind: Any) -> None:
    assert footer_schema(written(tmp_path / "left.parquet", pa.schema([("n", pa.int64()), ("c", kind)]))) is None


def test_what_spark_wrote_is_what_spark_finds(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr("id", "cast(id AS string) AS s", "current_timestamp() AS t", "id * 0.01 AS d")
    frame.coalesce(1).write.parquet(str(tmp_path / "own"))
    (path,) = (tmp_path / "own").glob("*.parquet")
    assert footer_schema(path.as_uri()) == spark.read.parquet(path.as_uri()).schema
    spark.range(3).selectExpr("array(id) AS a").coalesce(1).write.parquet(str(tmp_path / "parts"))
    (path,) = (tmp_path / "parts").glob("*.parquet")
    assert footer_schema(path.as_uri()) is None


def test_files_elsewhere_or_without_a_footer_are_left_to_spark(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("no footer")
    assert footer_schema((tmp_path / "text.parquet").as_uri()) is None
    assert footer_schema((tmp_path / "missing.parquet").as_uri()) is None
    assert footer_schema("s3a://shop/orders.parquet") is None


def test_a_path_is_read_as_it_is_and_not_as_its_url(tmp_path: Path) -> None:
    url = written(tmp_path / "a b%c.parquet", pa.schema([("n", pa.int64())]))
    assert footer_schema(url) == StructType([StructField("n", LongType())])


@pytest.mark.parametrize("claim", [b"", b"[]", b"{}", b'{"fields": [{"name": "n", "type": "no type"}]}', b"\xff"])
def test_a_schema_which_spark_did_not_write_is_left_to_spark(tmp_path: Path, claim: bytes) -> None:
    schema = pa.schema([("n", pa.int64())], {SPARKS_OWN: claim})
    assert footer_schema(written(tmp_path / "claims.parquet", schema)) is None
