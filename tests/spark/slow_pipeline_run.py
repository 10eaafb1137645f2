"""More of pipelines, with a real Spark: several tables in one commit, tables which follow others; the demo's faults.

`make soak-spark` runs these.
"""

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.lake.rest.servers import LakeProcess
from tests.spark.conftest import Brokers
from tests.spark.lakes import log, options_of, sinks
from tests.spark.pipelines.test_pipeline_run import Shop, lake_server

from penstock.cli.main import run
from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.spark import lake

__all__ = ["lake_server"]
pytestmark = pytest.mark.timeout(1800)


def test_several_tables_are_committed_together(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    shop = Shop("together", spark, brokers, journals, lake_server, tmp_path)
    tables = {"large": lake(f"{shop.main}/large"), "small": lake(f"{shop.main}/small")}

    @shop.pipeline.flow(source=shop.orders, sink=tables)
    def split(raw: DataFrame) -> dict[str, DataFrame]:
        return {"large": raw.where("amount >= 10"), "small": raw.where("amount < 10")}

    shop.publish("1.00", "20.00")
    shop.run()
    assert (shop.amounts("large"), shop.amounts("small")) == (["20.00"], ["1.00"])
    assert len(log(lake_server, "together")) == 1
    checkpoint = Path(shop.pipeline.checkpoint_of(shop.pipeline.chosen()[0]))
    (checkpoint / "commits" / "0").unlink()  # the driver died behind the commit
    shop.publish("30.00")
    shop.run()
    assert (shop.amounts("large"), shop.amounts("small")) == (["20.00", "30.00"], ["1.00"])
    assert sinks(lake_server, "together")["shop.split"]["batch"] == 1


def test_rows_which_commits_add_are_a_stream(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    """From the lake into a journal's place in the lake again: a table which follows another."""
    shop = Shop("following", spark, brokers, journals, lake_server, tmp_path)
    source, copy = f"{shop.main}/orders", f"{shop.main}/copy"

    def write(*ids: int) -> None:
        frame = spark.createDataFrame([(id_,) for id_ in ids], "amount int")
        frame.coalesce(1).write.format("lake").mode("append").options(**options_of(lake_server)).save(source)

    shop.pipeline.flow(source=lake.changes(source), sink=lake(copy), name="copy")(lambda rows: rows)
    write(1, 2)
    shop.run()
    write(3)
    shop.run()
    shop.run()  # nothing new: its own commits are no rows of the table it follows
    assert shop.amounts("copy") == ["1", "2", "3"]


@pytest.mark.parametrize("faults", [(), ("broker",), ("leader",), ("driver",), ("broker", "leader", "driver")])
def test_the_demo_with_each_fault(faults: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    chosen = [part for name in faults for part in ("--fault", name)] or ["--calm"]
    assert run(["--output", "json", "demo", "--orders", "6000", "--seconds", "20", *chosen]) == 0
    account = json.loads(capfd.readouterr().out)
    assert (account["ok"], account["orders"], account["lost"], account["doubled"]) == (True, 6000, 0, 0)
    assert account["revenue"] == account["books"]
