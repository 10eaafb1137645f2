"""The sink `lake`, with a real Spark: tasks which fail, tables which are replaced. `make soak-spark` runs these."""

from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import Row, SparkSession
from tests.lake.rest.servers import LakeProcess
from tests.spark.lakes import Orders, log, make_repository, options_of, run_stream
from tests.spark.tables.test_lake_sink import ids

from penstock.spark.tables.table import read_table

pytestmark = pytest.mark.timeout(600)


def test_tasks_which_fail_leave_nothing_visible(spark: SparkSession, lake: LakeProcess, tmp_path: Path) -> None:
    url = make_repository(lake, "stream-retries") + "/orders"
    orders = Orders(tmp_path / "in")
    orders.add(*range(10))

    def stumble(rows):  # type: ignore[no-untyped-def]
        yield from rows
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() < 2:
            raise RuntimeError("this attempt dies behind its last row")

    frame = orders.stream(spark).repartition(2).mapInArrow(stumble, Orders.SCHEMA)
    run_stream(frame, lake, url, tmp_path / "checkpoint")
    assert ids(spark, lake, url) == list(range(10))
    assert len(log(lake, "stream-retries")) == 1


def test_complete_mode_replaces_the_table(spark: SparkSession, lake: LakeProcess, tmp_path: Path) -> None:
    url = make_repository(lake, "stream-complete") + "/totals"
    orders = Orders(tmp_path / "in")
    orders.add(0, 1, 2)
    orders.add(3, 4)
    totals = orders.stream(spark).groupBy("sku").count()
    run_stream(totals, lake, url, tmp_path / "checkpoint", mode="complete")
    found = read_table(spark, url, options=options_of(lake)).orderBy("sku").collect()
    assert found == [Row(sku="sku0", count=2), Row(sku="sku1", count=2), Row(sku="sku2", count=1)]
    before = read_table(spark, "lake://stream-complete@main~1/totals", options=options_of(lake))
    assert sum(row["count"] for row in before.collect()) == 3
