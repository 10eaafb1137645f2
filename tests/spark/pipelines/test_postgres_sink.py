"""A flow into two tables of a PostgreSQL database: totals that change, and a log. With a real Spark."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.lake.rest.servers import LakeProcess
from tests.spark.conftest import Brokers
from tests.spark.pipelines.test_pipeline_run import Shop, lake_server

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.kernel.errors import InvalidArgument
from penstock.spark import Pipeline, journal, lake, postgres
from penstock.spark.databases.postgres_stage import connect

__all__ = ["lake_server"]
pytestmark = pytest.mark.timeout(600)
URL = "postgresql://nobody@127.0.0.1:1/shop"


def test_a_flow_fills_tables_of_a_database(
    spark: SparkSession,
    brokers: Brokers,
    journals: BlockingJournals,
    lake_server: LakeProcess,
    tmp_path: Path,
    postgres: str,
) -> None:
    from penstock.spark import postgres as table

    shop = Shop("mart", spark, brokers, journals, lake_server, tmp_path)
    shop.pipeline.flow(
        source=shop.orders, sink=table(postgres, "mart_totals", mode="upsert", keys=["sku"]), name="sum"
    )(lambda raw: raw.groupBy("sku").agg(F.sum("amount").alias("amount"), F.count("*").alias("orders")))
    shop.pipeline.flow(
        source=shop.orders,
        sink={"log": table(postgres, "mart_log"), "ids": table(postgres, "mart_ids", mode="upsert", keys=["id"])},
        name="log",
    )(lambda raw: {"log": raw, "ids": raw.selectExpr("id", "named_struct('sku', sku) AS what")})
    shop.publish("1.00", "2.00")
    shop.run()
    shop.publish("3.00")
    shop.run()
    checkpoint = Path(shop.pipeline.checkpoint_of(shop.pipeline.chosen()[1]))
    (checkpoint / "commits" / "1").unlink()  # the driver died behind the commit
    shop.publish("4.00")
    shop.run()

    def rows(query: str) -> list[Any]:
        with connect(postgres) as connection:
            return list(connection.execute(query).fetchall())

    assert [(sku, str(amount), orders) for sku, amount, orders in rows("SELECT * FROM mart_totals")] == [
        ("cup", "10.00", 4)
    ]
    assert [str(amount) for (amount,) in rows("SELECT amount FROM mart_log ORDER BY id")] == [
        "1.00",
        "2.00",
        "3.00",
        "4.00",
    ]
    assert rows("SELECT what->>'sku' FROM mart_ids WHERE id = 3") == [("cup",)]
    assert [batch for (batch,) in rows("SELECT batch FROM penstock_sinks WHERE sink LIKE 'shop.%'")] == [2, 2]


def one(**options: Any) -> Any:
    return postgres(URL, "t", **options)


def test_wrong_sinks_are_refused() -> None:
    source, same = journal("a"), lambda raw: raw
    with pytest.raises(InvalidArgument, match="mode upsert needs keys"):
        one(mode="upsert")
    with pytest.raises(InvalidArgument, match="mode append has none"):
        one(keys=["a"])
    for other in (lake("lake://shop@main/a"), journal("b"), postgres("postgresql://elsewhere/b", "b")):
        with pytest.raises(InvalidArgument, match="all are tables of one database"):
            Pipeline("shop").flow(source=source, sink={"a": one(), "b": other}, name="both")(same)
    assert "nobody" not in repr(one()) + str(one())  # nor is a password in any log


@pytest.mark.parametrize(
    ("sinks", "function", "why"),
    [
        ({"a": one(mode="upsert", keys=["sku"])}, lambda raw: {"a": raw.drop("sku")}, "no column sku; the columns are"),
        ({"a": one(mode="upsert", keys=["x"])}, lambda raw: {"a": raw.selectExpr("double(id) AS x")}, "floating-point"),
        (
            {"a": one(mode="upsert", keys=["sku"]), "b": postgres(URL, "u")},
            lambda raw: {"a": raw.groupBy("sku").count(), "b": raw.dropDuplicates(["id"])},
            "it appends rows that change",
        ),
    ],
)
def test_what_a_database_cannot_keep_is_refused_before_a_query_starts(
    sinks: Any, function: Any, why: str, spark: SparkSession
) -> None:
    from penstock.spark.pipelines.flow_frames import check_frames, output_mode_of

    pipeline = Pipeline("shop")
    pipeline.flow(source=journal("a"), sink=sinks, name="orders")(function)
    (flow,) = pipeline.chosen()
    rows: DataFrame = spark.readStream.format("rate").load().selectExpr("value AS id", "'a' AS sku")
    frames = flow.apply({"": rows})

    def check() -> None:
        check_frames(flow, frames)
        output_mode_of(flow, frames)

    with pytest.raises(InvalidArgument, match=why):
        check()
