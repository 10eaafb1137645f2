"""Several tables in one commit, with a real Spark: tasks which fail, batches which are replayed. `make soak-spark` runs
this.
"""

from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from tests.lake.rest.servers import LakeProcess
from tests.spark.lakes import Orders, log, make_repository, options_of, sinks
from tests.spark.tables.test_lake_sink import ids

from penstock.spark import commit_together, read_table

pytestmark = pytest.mark.timeout(600)


def test_tasks_which_fail_and_batches_which_are_replayed_leave_nothing_twice(
    spark: SparkSession, lake: LakeProcess, tmp_path: Path
) -> None:
    main = make_repository(lake, "together-retries")
    orders, checkpoint = Orders(tmp_path / "in"), tmp_path / "checkpoint"
    orders.add(*range(10))
    orders.add(10, 11)

    def stumble(rows):  # type: ignore[no-untyped-def]
        yield from rows
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() < 2:
            raise RuntimeError("this attempt dies behind its last row")

    def write(frame: DataFrame, batch: int) -> None:
        frame = frame.repartition(2).mapInArrow(stumble, Orders.SCHEMA)
        counts = frame.groupBy("sku").count()
        tables = {f"{main}/orders": frame, f"{main}/counts": counts}
        commit_together(tables, sink="shop", checkpoint=str(checkpoint), options=options_of(lake))

    def run() -> None:
        writer = orders.stream(spark).writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()

    run()
    assert ids(spark, lake, f"{main}/orders") == list(range(12))
    assert len(log(lake, "together-retries")) == 2
    # The driver died behind its commit, before Spark's own log of it.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    orders.add(12)
    run()
    assert ids(spark, lake, f"{main}/orders") == list(range(13))
    counted = read_table(spark, f"{main}/counts", options=options_of(lake)).groupBy().sum("count").collect()
    assert [row["sum(count)"] for row in counted] == [13]
    assert len(log(lake, "together-retries")) == 3
    assert sinks(lake, "together-retries")["shop"]["batch"] == 2
