"""Backfills with a real Spark: the sink's register says where a flow continues. Design: spark-2.md S6 to S8."""

import shutil
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.lake.rest.servers import LakeProcess
from tests.spark.conftest import Brokers
from tests.spark.lakes import log, options_of, sinks
from tests.spark.pipelines.test_pipeline_run import Shop, lake_server

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.kernel.errors import InvalidArgument, PreconditionFailed, Refused
from penstock.spark import lake
from penstock.spark.pipelines.running.pipeline_backfill import backfill
from penstock.spark.pipelines.running.program import status_of_error
from penstock.spark.pipelines.running.restore import restore

__all__ = ["lake_server"]
pytestmark = pytest.mark.timeout(600)


def test_a_backfill_that_dies_skips_no_history(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    shop = Shop("dies", spark, brokers, journals, lake_server, tmp_path)
    broken = [True]

    def orders(raw: DataFrame) -> DataFrame:
        return raw.withColumn("amount", F.raise_error(F.lit("dies")).cast("decimal(9,2)")) if broken[0] else raw

    shop.pipeline.flow(source=shop.orders, sink=lake(f"{shop.main}/orders"))(orders)
    shop.publish("1.00", "2.00")
    shop.pipeline.connect({"brokers": brokers.address}, options_of(lake_server))
    (flow,) = shop.pipeline.chosen()
    with pytest.raises(PySparkException, match="dies"):
        backfill(spark, shop.pipeline, flow)
    broken[0] = False
    shop.publish("3.00")
    shop.run()
    assert shop.amounts("orders") == ["1.00", "2.00", "3.00"]


def test_a_flow_is_restored_while_its_old_driver_lives(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    """The checkpoint of an old driver is on another machine: the flow continues here, and the old one is refused."""
    shop = Shop("restored", spark, brokers, journals, lake_server, tmp_path)
    shop.pipeline.flow(source=shop.orders, sink=lake(f"{shop.main}/orders"), name="orders")(lambda raw: raw)
    shop.pipeline.flow(source=shop.orders, sink=lake(f"{shop.main}/once"), name="once")(
        lambda raw: raw.dropDuplicates(["id"])
    )
    shop.publish("1.00", "2.00")
    shop.run()
    orders, once = shop.pipeline.chosen()
    checkpoint = Path(shop.pipeline.checkpoint_of(orders))
    shutil.copytree(checkpoint, tmp_path / "old")
    note = restore(spark, shop.pipeline, orders)
    assert "the stream continues after them" in note
    assert not checkpoint.exists()
    with pytest.raises(PreconditionFailed, match=r"its state \(Deduplicate\) was in the checkpoint"):
        restore(spark, shop.pipeline, once)
    shop.publish("3.00")
    shop.run()
    assert shop.amounts("orders") == ["1.00", "2.00", "3.00"]
    shutil.rmtree(checkpoint)
    (tmp_path / "old").rename(checkpoint)
    shop.publish("4.00")
    with pytest.raises(PreconditionFailed, match="belongs to query") as refused:
        shop.pipeline.run(spark, flows=["orders"], until="now")
    assert status_of_error(refused.value) == 75
    restore(spark, shop.pipeline, orders)
    with shop.pipeline.run(spark, flows=["orders"], interval="100ms", wait=False) as run:
        while shop.amounts("orders") != ["1.00", "2.00", "3.00", "4.00"]:
            assert not run.wait(0.1)
        assert [each.flow for each in run.progress()] == ["orders"]
    assert spark.range(1).count() == 1  # a session that was given is left running


def test_a_flow_that_keeps_state_has_no_backfill(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    shop = Shop("stateful-history", spark, brokers, journals, lake_server, tmp_path)
    shop.pipeline.flow(source=shop.orders, sink=lake(f"{shop.main}/once"), name="once")(
        lambda raw: raw.dropDuplicates(["id"])
    )
    shop.publish("1.00")
    shop.pipeline.connect({"brokers": brokers.address}, options_of(lake_server))
    (flow,) = shop.pipeline.chosen()
    with pytest.raises(InvalidArgument, match=r"shop\.once keeps state \(Deduplicate\)"):
        backfill(spark, shop.pipeline, flow)
    assert log(lake_server, "stateful-history") == []


def test_a_backfill_in_several_commits_is_taken_up_by_whoever_comes(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    shop = Shop("taken-up", spark, brokers, journals, lake_server, tmp_path)
    tables = {
        "all": lake(f"{shop.main}/all", checks={"amounts are positive": "amount > 0"}),
        "large": lake(f"{shop.main}/large"),
    }
    shop.pipeline.flow(source=shop.orders, sink=tables, name="orders")(
        lambda raw: {"all": raw, "large": raw.where("amount >= 3")}
    )
    shop.publish("1.00", "2.00", "3.00", "4.00")
    shop.pipeline.connect({"brokers": brokers.address}, options_of(lake_server))
    (flow,) = shop.pipeline.chosen()
    lines: list[str] = []

    class Killed(Exception):
        pass

    def dies(line: str) -> None:
        lines.append(line)
        raise Killed

    with pytest.raises(Killed):
        backfill(spark, shop.pipeline, flow, batch_bytes=150, tell=dies)
    with pytest.raises(Killed):
        backfill(spark, shop.pipeline, flow, batch_bytes=150, tell=dies)
    assert lines[0].startswith("orders: 150 of ")
    assert lines[1].startswith("orders: 300 of ")
    shop.publish("5.00")
    shop.run()  # the stream, over what the backfill has not written
    assert shop.amounts("all") == ["1.00", "2.00", "3.00", "4.00", "5.00"]
    assert shop.amounts("large") == ["3.00", "4.00", "5.00"]
    register = sinks(lake_server, "taken-up", "shop-orders-audit")["shop.orders"]
    head = journals.stat("taken-up/orders", 0).write_head
    assert (register["batch"], register["ends"]) == (0, f'[{{"taken-up/orders":{head}}}]')
    with pytest.raises(PreconditionFailed, match="has begun"):
        backfill(spark, shop.pipeline, flow)
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(PreconditionFailed, match="its stream has begun"):
        backfill(spark, shop.pipeline, flow)
    shop.publish("6.00")
    shop.run()  # the checkpoint is lost, and the register knows
    assert shop.amounts("all") == ["1.00", "2.00", "3.00", "4.00", "5.00", "6.00"]


def test_a_stream_that_began_elsewhere_is_refused(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    """A driver was frozen before its first commit, and wakes after a backfill."""
    shop = Shop("elsewhere", spark, brokers, journals, lake_server, tmp_path)
    broken = [True]

    def orders(raw: DataFrame) -> DataFrame:
        return raw.withColumn("amount", F.raise_error(F.lit("dies")).cast("decimal(9,2)")) if broken[0] else raw

    shop.pipeline.flow(source=shop.orders, sink=lake(f"{shop.main}/orders"))(orders)
    shop.publish("1.00", "2.00")
    with pytest.raises(Refused, match="dies"):
        shop.run()  # batch 0 is planned from the begin, and not committed
    broken[0] = False
    (tmp_path / "checkpoints").rename(tmp_path / "frozen")
    (flow,) = shop.pipeline.chosen()
    backfill(spark, shop.pipeline, flow)
    (tmp_path / "frozen").rename(tmp_path / "checkpoints")
    with pytest.raises(Refused, match=r"belongs to query backfill-.*this one begins at"):
        shop.run()
    assert shop.amounts("orders") == ["1.00", "2.00"]


def test_a_lost_checkpoint_of_a_flow_that_keeps_state_is_named_before_anything_starts(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    shop = Shop("lost-state", spark, brokers, journals, lake_server, tmp_path)
    shop.pipeline.flow(source=shop.orders, sink=lake(f"{shop.main}/once"), name="once")(
        lambda raw: raw.dropDuplicates(["id"])
    )
    shop.publish("1.00")
    shop.run()
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(PreconditionFailed, match=r"its state \(Deduplicate\) was in the checkpoint"):
        shop.run()
    assert shop.amounts("once") == ["1.00"]
