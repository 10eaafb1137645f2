"""Plain tables have columns. A batch with other types is refused; new columns are added; missing ones are null."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from tests.lake.rest.servers import LakeProcess
from tests.spark.lakes import Orders, access_of, log, make_repository, options_of, run_stream

from penstock.kernel.errors import InvalidArgument
from penstock.spark import read_table, rewrite_table
from penstock.spark.pipelines import together
from penstock.spark.pipelines.staging import JobBatch, stage_tables
from penstock.spark.pipelines.tagged import tagged
from penstock.spark.pipelines.together import TableWrite, commit_tagged
from penstock.spark.shared.checkpoint import Plan
from penstock.spark.tables.lake_access import table_url
from penstock.spark.tables.table_columns import merged_columns, plan_table

pytestmark = pytest.mark.timeout(600)


def kind_of(ddl: str) -> StructType:
    found = StructType.fromDDL(ddl)
    assert isinstance(found, StructType)
    return found


@pytest.mark.parametrize(
    ("table", "frame", "merged"),
    [
        ("a int, b string", "b string, a int", "a int, b string"),
        ("a int, b string", "a int", "a int, b string"),
        ("a int", "c date, a int not null", "a int, c date"),
        ("a int, f float", "a long, f double", "a long, f double"),
        ("a long", "a short", "a long"),
        ("d decimal(9,2)", "d decimal(12,2)", "d decimal(12,2)"),
        ("s struct<x: int>", "s struct<x: int not null> not null", "s struct<x: int>"),
        ("a array<int>, m map<string, long>", "m map<string, long>", "a array<int>, m map<string, long>"),
    ],
)
def test_columns_are_merged(spark: SparkSession, table: str, frame: str, merged: str) -> None:
    assert merged_columns(kind_of(table), kind_of(frame), where="") == kind_of(merged)


@pytest.mark.parametrize(
    ("table", "frame", "why"),
    [
        ("a bigint", "a string", "column a is bigint in the table, and string here"),
        ("a int", "a double", "column a is int in the table, and double here"),
        ("d decimal(9,2)", "d decimal(9,3)", r"column d is decimal\(9,2\) in the table, and decimal\(9,3\) here"),
        ("s struct<x: int>", "s struct<x: int, y: int>", "column s is struct<x:int> in the table"),
        ("t timestamp", "t timestamp_ntz", "column t is timestamp in the table, and timestamp_ntz here"),
        ("Amount int", "amount int", "column amount differs from the table's column Amount by case alone"),
    ],
)
def test_columns_that_contradict_the_table_are_refused(spark: SparkSession, table: str, frame: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=f"t: {why}") as refused:
        merged_columns(kind_of(table), kind_of(frame), where="t: ")
    assert refused.value.next_step


def test_writes_keep_the_columns_of_their_table(spark: SparkSession, lake: LakeProcess, tmp_path: Path) -> None:
    url, options = make_repository(lake, "columns") + "/orders", options_of(lake)

    def write(frame: DataFrame, mode: str = "append", **more: str) -> None:
        frame.write.format("lake").mode(mode).options(**options, **more).save(url)

    write(spark.range(2).selectExpr("id", "'a' AS sku"))
    with pytest.raises(PySparkException, match="column id is bigint in the table, and string here"):
        write(spark.range(2).selectExpr("string(id) AS id", "'b' AS sku"))
    write(spark.range(2, 4).selectExpr("int(id) AS id", "id * 2 AS price"))  # one is left out, one is new
    rows = read_table(spark, url, options=options)
    assert rows.columns == ["id", "sku", "price"]
    assert sorted(map(tuple, rows.collect())) == [(0, "a", None), (1, "a", None), (2, None, 4), (3, None, 6)]
    with pytest.raises(PySparkException, match="column price is bigint in the table, and boolean here"):
        write(spark.range(2).selectExpr("id", "true AS price"))
    orders = Orders(tmp_path / "in")
    orders.add(7)
    stream = orders.stream(spark)
    with pytest.raises(PySparkException, match="column id is bigint in the table, and double here"):
        run_stream(stream.selectExpr("double(id) AS id"), lake, url, tmp_path / "wrong")
    run_stream(stream, lake, url, tmp_path / "checkpoint")
    assert read_table(spark, url, options=options).columns == ["id", "sku", "price", "day"]
    write(spark.range(1).selectExpr("string(id) AS other"), "overwrite", base="any")  # with other columns than before
    assert read_table(spark, url, options=options).columns == ["other"]
    write(spark.range(1).selectExpr("'x' AS other"))


def test_a_table_from_before_gets_its_columns_from_its_newest_file(spark: SparkSession, lake: LakeProcess) -> None:
    url, options = make_repository(lake, "older") + "/orders", options_of(lake)
    spark.range(3).write.format("lake").options(**options).mode("append").save(url)
    api = "/repositories/older/branches/main"
    access_of(lake).ask("DELETE", f"{api}/objects", path="orders/_penstock_schema.json")
    access_of(lake).ask("POST", f"{api}/commits", {"message": "as releases before this one wrote tables"})
    with pytest.raises(InvalidArgument, match="column id is bigint in the table"):
        plan_table(access_of(lake), table_url(url), kind_of("id string"))
    spark.range(3).write.format("lake").options(**options).mode("append").save(url)
    assert plan_table(access_of(lake), table_url(url), kind_of("id long")).etag


def test_two_writers_add_one_column_in_two_types(
    spark: SparkSession, lake: LakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one looked at the table before the first one committed."""
    url, options = make_repository(lake, "two-writers") + "/orders", options_of(lake)
    stage = stage_tables

    def commit(frame: DataFrame, number: int) -> None:
        job = JobBatch("q", number, Plan())
        commit_tagged(tagged([frame]), [TableWrite(url)], sink="s", options=options, job=job)

    commit(spark.range(1), 0)
    others = [spark.range(5, 6).selectExpr("id", "'one' AS note"), spark.range(6, 7).selectExpr("id", "'a' AS more")]

    def slow_stage(*given):  # type: ignore[no-untyped-def]
        staged = stage(*given)
        if others:
            others.pop(0).write.format("lake").mode("append").options(**options).save(url)
        return staged

    monkeypatch.setattr(together, "stage_tables", slow_stage)
    with pytest.raises(InvalidArgument, match="column note is string in the table, and bigint here"):
        commit(spark.range(1).selectExpr("id", "id AS note"), 1)
    commit(spark.range(9, 10), 1)  # another column comes meanwhile: the rows are staged again, with it
    rows = read_table(spark, url, options=options)
    assert rows.columns == ["id", "note", "more"]
    assert sorted(row.id for row in rows.collect()) == [0, 5, 6, 9]


def test_a_rewrite_loses_no_row_of_another_writer(spark: SparkSession, lake: LakeProcess) -> None:
    url, options = make_repository(lake, "rewritten") + "/orders", options_of(lake)
    spark.range(10).write.format("lake").mode("append").options(**options).save(url)
    calls = []

    def even(orders: DataFrame) -> DataFrame:
        calls.append(orders.count())
        if len(calls) == 1:
            spark.range(10, 14).write.format("lake").mode("append").options(**options).save(url)
        return orders.where("id % 2 = 0")

    rewrite_table(spark, url, even, message="only even ones", options=options)
    assert calls == [10, 14]
    rows = read_table(spark, url, options=options)
    assert sorted(row.id for row in rows.collect()) == [0, 2, 4, 6, 8, 10, 12]
    assert log(lake, "rewritten")[0]["message"] == "only even ones"
