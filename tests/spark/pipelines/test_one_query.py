"""One streaming query feeds all sinks of a flow: state survives from batch to batch. Design: spark-2.md S1 to S5."""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.lake.rest.servers import LakeProcess
from tests.spark.conftest import Brokers
from tests.spark.lakes import access_of, log, options_of
from tests.spark.pipelines.test_pipeline_run import SCHEMA, Shop, lake_server

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import InvalidArgument
from penstock.spark import journal, lake
from penstock.spark.tables.table import read_table

__all__ = ["lake_server"]
pytestmark = pytest.mark.timeout(600)
EVENTS = "id long, sku string, at timestamp"
WINDOW_S, LATE_S = 300, 60


def events(count: int, seed: int) -> list[dict[str, Any]]:
    """Return events in almost the order of their times; one in ten comes twice, soon after."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        second = number * 10 - rng.randrange(30)
        stamp = (
            f"2026-11-15T{8 + second // 3600:02d}:{second % 3600 // 60:02d}:{second % 60:02d}Z" if second > 0 else ""
        )
        rows.append({"id": number, "sku": f"sku{number % 3}", "at": stamp or "2026-11-15T08:00:00Z"})
        if number % 10 == 0:
            rows.append(rows[-1])
    rows.append({"id": count, "sku": "last", "at": "2026-11-16T00:00:00Z"})  # closes every window before it
    return rows


def three_tables(raw: DataFrame) -> dict[str, DataFrame]:
    """Return raw rows, rows for each window, and the first row of each id."""
    seen = raw.withWatermark("at", f"{LATE_S} seconds")
    windows = seen.groupBy(F.window("at", f"{WINDOW_S} seconds"), "sku").count()
    return {
        "raw": raw,
        "windows": windows.selectExpr("window.start AS begin", "sku", "count AS orders"),
        "once": seen.dropDuplicatesWithinWatermark(["id"]),
    }


def test_a_flow_with_three_sinks_equals_the_batch_answer(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    shop = Shop("stateful", spark, brokers, journals, lake_server, tmp_path)
    source = journal("stateful/orders", schema=EVENTS, maxBytesPerTrigger="12000")
    tables = {name: lake(f"{shop.main}/{name}") for name in ("raw", "windows", "once")}
    shop.pipeline.flow(source=source, sink=tables)(three_tables)
    rows = events(600, seed=1)
    shop.publish_rows(rows[:300])
    shop.run()
    shop.publish_rows(rows[300:])
    shop.run()

    def found(table: str) -> DataFrame:
        return read_table(spark, f"{shop.main}/{table}", options=options_of(lake_server))

    batch = three_tables(spark.createDataFrame(found("raw").rdd, EVENTS))["windows"].where("sku <> 'last'")
    assert found("raw").count() == len(rows)
    assert sorted(map(tuple, found("windows").collect())) == sorted(map(tuple, batch.collect()))
    assert sorted(row["id"] for row in found("once").collect()) == list(range(601))
    commits = log(lake_server, "stateful")
    assert len(commits) > 3
    assert {each["metadata"]["penstock.sink"] for each in commits} == {"shop.three_tables"}


def test_two_streams_feed_two_tables_with_folders_of_their_own(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    shop = Shop("crossed", spark, brokers, journals, lake_server, tmp_path)
    journals.create(JournalSpec(name="crossed/copy", replication=1))
    sinks = {
        "small": lake(f"{shop.main}/small", partition_by=["sku"]),
        "all": lake(f"{shop.main}/all", partition_by=["id"], checks={"amounts are positive": "amount > 0"}),
    }

    @shop.pipeline.flow(source={"one": shop.orders, "two": shop.orders}, sink=sinks)
    def crossed(one: DataFrame, two: DataFrame) -> dict[str, DataFrame]:
        return {"all": one.union(two), "small": two.where("amount < 10")}

    shop.publish("1.00", "20.00")
    shop.run()
    assert (shop.amounts("small"), shop.amounts("all")) == (["1.00"], ["1.00", "1.00", "20.00", "20.00"])
    paths = [each["path"] for each in access_of(lake_server).pages("/repositories/crossed/refs/main/objects/ls")]
    assert sorted({path.rpartition("/")[0] for path in paths if "schema" not in path}) == [
        "all/id=0",
        "all/id=1",
        "small/sku=cup",
    ]


def test_journals_are_committed_together(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    shop = Shop("twins", spark, brokers, journals, lake_server, tmp_path)
    for name in ("large", "small"):
        journals.create(JournalSpec(name=f"twins/{name}", replication=1))

    @shop.pipeline.flow(
        source=shop.orders, sink={"large": journal("twins/large"), "small": journal("twins/small")}, name="twins"
    )
    def twins(raw: DataFrame) -> dict[str, DataFrame]:
        return {"large": raw.where("amount >= 10"), "small": raw.where("amount < 10")}

    def ids(name: str) -> list[int]:
        reader = spark.read.format("journal").schema(SCHEMA).option("brokers", brokers.address)
        return sorted(row["id"] for row in reader.load(name).collect())

    shop.publish("1.00", "20.00")
    shop.run()
    shop.publish("2.00")
    shop.run()
    assert (ids("twins/large"), ids("twins/small")) == ([1], [0, 2])
    records = [
        msgspec.json.decode(line)
        for line in b"".join(bytes(chunk.content) for chunk in journals.read("spark/transactions")).splitlines()
    ]
    assert [sorted(each["intents"]) for each in records if each["sink"] == "shop.twins"] == [
        ["twins/large", "twins/small"],
        ["twins/small"],
    ]


def whole(raw: DataFrame) -> DataFrame:
    return raw


@pytest.mark.parametrize(
    ("sink", "function", "why"),
    [
        ({"partition_by": ["day"]}, whole, "partition_by names 'day'; the columns are id, sku, amount"),
        ({"checks": {"positive": "price > 0"}}, whole, r"check 'positive' \(price > 0\)"),
        ({"mode": "complete"}, whole, "only an aggregation has a result of all rows"),
        ({}, lambda raw: raw.selectExpr("INTERVAL 1 DAY AS day"), "column day: the lake keeps no"),
    ],
)
def test_what_a_table_cannot_keep_is_refused_before_a_query_starts(
    sink: dict[str, Any],
    function: Any,
    why: str,
    spark: SparkSession,
    brokers: Brokers,
    journals: BlockingJournals,
    lake_server: LakeProcess,
    tmp_path: Path,
) -> None:
    shop = Shop(f"refused-{abs(hash(why))}", spark, brokers, journals, lake_server, tmp_path)
    shop.pipeline.flow(source=shop.orders, sink=lake(f"{shop.main}/orders", **sink), name="orders")(function)
    shop.publish("1.00")
    with pytest.raises(InvalidArgument, match=f"shop.orders, table .*{why}"):
        shop.run()
    assert not (tmp_path / "checkpoints").exists()
