"""The sink `lake`, with a real Spark and a real lake: every batch once, whatever happens to drivers and tasks."""

import shutil
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from tests.lake.rest.servers import LakeProcess
from tests.spark.lakes import Orders, access_of, log, make_repository, options_of, run_stream, sinks

from penstock.kernel.errors import InvalidArgument
from penstock.lake.records.sink_batch import SinkBody
from penstock.spark import diff_entries
from penstock.spark.shared.checkpoint import plan_of, state_of
from penstock.spark.tables.lake_sink import Wrote, checked
from penstock.spark.tables.table import read_changes, read_entries, read_ranges, read_table
from penstock.spark.versions import BATCH_PROPERTY, QUERY_PROPERTY

pytestmark = pytest.mark.timeout(600)


def ids(spark: SparkSession, lake: LakeProcess, url: str) -> list[int]:
    frame = read_table(spark, url, options=options_of(lake))
    return sorted(row["id"] for row in frame.select("id").collect())


def test_a_stream_commits_each_batch_once(spark: SparkSession, lake: LakeProcess, tmp_path: Path) -> None:
    url = make_repository(lake, "stream-once") + "/orders"
    orders, checkpoint = Orders(tmp_path / "in"), tmp_path / "checkpoint"
    orders.add(1, 2)
    orders.add(3, 4)
    run_stream(orders.stream(spark), lake, url, checkpoint, sink="orders", pipeline="revenue")
    assert ids(spark, lake, url) == [1, 2, 3, 4]
    newest, oldest = log(lake, "stream-once")
    query = state_of(str(checkpoint)).query
    said = newest["metadata"]
    assert (said["penstock.query"], said["penstock.batch"], said["penstock.rows"]) == (query, "1", "2")
    assert (said["penstock.sink"], said["penstock.pipeline"]) == ("orders", "revenue")
    assert "logOffset" in said["penstock.offsets"]
    assert oldest["message"] == "revenue, batch 0: 2 rows"

    # A driver which died behind its commit, before Spark's own log: the batch is replayed, and seen once.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    orders.add(5)
    run_stream(orders.stream(spark), lake, url, checkpoint, sink="orders")
    assert ids(spark, lake, url) == [1, 2, 3, 4, 5]
    assert len(log(lake, "stream-once")) == 3
    register = sinks(lake, "stream-once")["orders"]
    assert (register["query"], register["batch"]) == (query, 2)
    assert register["guard"] == plan_of(str(checkpoint), 2).guard != ""

    # A checkpoint which was reset would write everything again: refused, until somebody says that it is right.
    shutil.rmtree(checkpoint)
    with pytest.raises(PySparkException, match="checkpoint was reset"):
        run_stream(orders.stream(spark), lake, url, checkpoint, sink="orders")
    assert len(log(lake, "stream-once")) == 3
    body = SinkBody("orders", state_of(str(checkpoint)).query, -1)
    access_of(lake).ask("PUT", "/repositories/stream-once/branches/main/sinks", body)
    run_stream(orders.stream(spark), lake, url, checkpoint, sink="orders")
    assert ids(spark, lake, url) == sorted([1, 2, 3, 4, 5] * 2)


def test_a_rewound_checkpoint_and_a_zombie_are_refused(spark: SparkSession, lake: LakeProcess, tmp_path: Path) -> None:
    url = make_repository(lake, "stream-zombie") + "/orders"
    orders, checkpoint, stale = Orders(tmp_path / "in"), tmp_path / "checkpoint", tmp_path / "stale"
    orders.add(1)
    run_stream(orders.stream(spark), lake, url, checkpoint)
    shutil.copytree(checkpoint, stale)  # what a second driver of the same query would know
    orders.add(2)
    orders.add(3)
    run_stream(orders.stream(spark), lake, url, checkpoint)
    with pytest.raises(PySparkException, match=r"other offsets|stale driver"):
        run_stream(orders.stream(spark), lake, url, stale)
    assert ids(spark, lake, url) == [1, 2, 3]
    assert len(log(lake, "stream-zombie")) == 3


def test_batches_tables_and_time(spark: SparkSession, lake: LakeProcess) -> None:
    """Append, overwrite, partitions, rerun by name, time travel, change feed, ranges."""
    main = make_repository(lake, "batches")
    url, options = f"{main}/orders", options_of(lake)

    def write(frame: DataFrame, mode: str = "append", **more: str) -> None:
        frame.write.format("lake").mode(mode).options(**options, **more).save(url)

    frame = spark.range(6).selectExpr("id", "concat('2026-11-1', id % 2) AS day", "cast(id AS decimal(9,2)) AS price")
    write(frame, partitionBy="day", txn="first")
    write(frame, partitionBy="day", txn="first")  # the job ran again
    table = read_table(spark, url, options=options)
    assert table.count() == 6
    assert table.schema["price"].dataType.simpleString() == "decimal(9,2)"
    files = read_entries(spark, f"{main}", options=options).collect()
    found = {row["path"].split("/")[1] for row in files}
    assert found == {"day=2026-11-10", "day=2026-11-11", "_penstock_schema.json"}
    assert read_ranges(spark, main, options=options).selectExpr("sum(count)").first() == Row(
        **{"sum(count)": len(files)}
    )
    small = spark.read.format("lake").options(**options).load(url)
    assert sorted(small.collect()) == sorted(table.collect())

    write(frame.where("id = 0").selectExpr("id + 100 AS id", "day", "price"))
    changes = read_changes(spark, url, since="main~1", options=options)
    assert [(row["id"], row["_change"]) for row in changes.collect()] == [(100, "insert")]
    with pytest.raises(PySparkException, match="orders/ has rows, and the rewrite does not say which commit it read"):
        write(frame.where("id < 2"), "overwrite")
    with pytest.raises(PySparkException, match="orders/ has changed between commit"):
        write(frame.where("id < 2"), "overwrite", base="main~1")
    write(frame.where("id < 2"), "overwrite", base="main")
    assert read_table(spark, url, options=options).count() == 2
    assert read_table(spark, "lake://batches@main~1/orders", options=options).count() == 7
    kinds = read_changes(spark, url, since="main~1", options=options).groupBy("_change").count().collect()
    assert {row["_change"]: row["count"] for row in kinds} == {"delete": 7, "insert": 2}
    paths = diff_entries(spark, "lake://batches@main~1", main, options=options).groupBy("kind").count().collect()
    (removed,) = (row["count"] for row in paths if row["kind"] == "removed")
    before = read_entries(spark, f"{main}~1", options=options).where("NOT path LIKE '%schema.json'")
    assert removed == before.count()
    newest = log(lake, "batches")[0]["creation_date"]
    at = read_table(spark, url, as_of=f"{_iso(newest)}", options=options)
    assert at.count() == 2
    with pytest.raises(Exception, match="no commit as old"):
        read_table(spark, url, as_of="2001-01-01", options=options)


def _iso(seconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat()


def test_writes_inside_foreach_batch_need_names(spark: SparkSession, lake: LakeProcess, tmp_path: Path) -> None:
    url = make_repository(lake, "for-each") + "/orders"
    orders = Orders(tmp_path / "in")
    orders.add(1, 2)
    options = options_of(lake)

    def unnamed(frame: DataFrame, batch: int) -> None:
        frame.write.format("lake").mode("append").options(**options).save(url)

    def named(frame: DataFrame, batch: int) -> None:
        frame.write.format("lake").mode("append").options(**options, sink="each").save(url)

    with pytest.raises(PySparkException, match="needs a name of its own"):
        _for_each(orders.stream(spark), unnamed, tmp_path / "checkpoint")
    _for_each(orders.stream(spark), named, tmp_path / "checkpoint")
    assert ids(spark, lake, url) == [1, 2]
    assert sinks(lake, "for-each")["each"]["batch"] == 0


def _for_each(frame: DataFrame, call: object, checkpoint: Path) -> None:
    writer = frame.writeStream.foreachBatch(call)  # type: ignore[arg-type]
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def test_columns_which_parquet_cannot_keep_are_named(spark: SparkSession, lake: LakeProcess) -> None:
    url = make_repository(lake, "odd-types") + "/t"
    frame = spark.sql("SELECT 1 AS id, INTERVAL '1' DAY AS wait")
    with pytest.raises(Exception, match="column wait"):
        frame.write.format("lake").mode("append").options(**options_of(lake)).save(url)
    with pytest.raises(Exception, match="there is no such column"):
        spark.range(1).write.format("lake").mode("append").options(**options_of(lake), partitionBy="day").save(url)


def test_messages_of_two_batches_are_not_committed_together() -> None:
    assert checked([Wrote([], "q", 1), Wrote([], "q", 1)], 1)
    for messages in (
        [],
        [None],
        [Wrote([], "q", 1), None],
        [Wrote([], "q", 1), Wrote([], "r", 1)],
        [Wrote([], "q", 0)],
    ):
        with pytest.raises(InvalidArgument):
            checked(messages, 1)


def test_spark_still_calls_its_properties_so() -> None:
    assert (QUERY_PROPERTY, BATCH_PROPERTY) == ("sql.streaming.queryId", "streaming.sql.batchId")
