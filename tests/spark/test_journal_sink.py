"""Writing journals with Spark: every row once, whatever happens to tasks and drivers."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit, udf, when
from tests.spark.conftest import Brokers, run_to_end
from tests.spark.histories import NOON, TIMEOUT_S, make, read_plainly

from penstock.client.journal_blocking import BlockingJournals
from penstock.message.framing.json_lines import JsonLines
from penstock.message.publisher import Publisher
from penstock.message.uuid import producer_id
from penstock.spark.options import Connection
from penstock.spark.ranges import shared_access
from penstock.spark.transactions import Transactions

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]
LINES = JsonLines()
TRANSACTIONS = "spark/transactions"


def put(journals: BlockingJournals, name: str, numbers: range) -> None:
    publisher = Publisher(producer_id(numbers.start + 1), NOON)
    rows = [{"n": number} for number in numbers]
    journals.append(name, publisher.committed(name, LINES, rows), timeout=TIMEOUT_S)


def numbers_of(journals: BlockingJournals, name: str) -> list[int]:
    """What a plain reader of committed messages sees."""
    return sorted(value["n"] for _, value in read_plainly(journals, name, LINES))


class Flow:
    """A query from one journal into another, which is started as often as needed."""

    def __init__(self, spark: SparkSession, brokers: Brokers, folder: Path, name: str) -> None:
        self._spark, self._brokers = spark, brokers
        self.checkpoint = folder / "checkpoint"
        self.source, self.target = f"{name}/in", f"{name}/out"

    def run(self, change: Callable[[DataFrame], DataFrame] = lambda frame: frame, **options: object) -> Any:
        settings = {name: str(value) for name, value in options.items()}
        reader = self._spark.readStream.format("journal").option("brokers", self._brokers.address)
        frame = change(reader.schema("n long").option("maxBytesPerTrigger", "2000").load(self.source))
        sink = frame.writeStream.format("journal").option("brokers", self._brokers.address).options(**settings)
        sink = sink.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        return run_to_end(lambda: sink.start(self.target))

    def batches(self) -> list[int]:
        return sorted(int(each.name) for each in (self.checkpoint / "commits").iterdir() if each.name.isdecimal())

    def forget_last_commit(self) -> int:
        """As a driver which died behind its commit: the effect is there, Spark does not know."""
        last = self.batches()[-1]
        for each in (self.checkpoint / "commits").glob(f"*{last}*"):
            each.unlink()
        return last


@pytest.fixture
def flow(spark: SparkSession, brokers: Brokers, journals: BlockingJournals, tmp_path: Path, request: Any) -> Flow:
    made = Flow(spark, brokers, tmp_path, "sink/" + request.node.name.removeprefix("test_")[:40])
    for name in (made.source, made.target):
        make(journals, name)
    put(journals, made.source, range(100))
    return made


def test_rows_arrive_once_over_restarts_and_replays(flow: Flow, journals: BlockingJournals) -> None:
    flow.run()
    assert len(flow.batches()) > 2
    assert numbers_of(journals, flow.target) == list(range(100))
    put(journals, flow.source, range(100, 120))
    flow.forget_last_commit()
    flow.run()
    assert numbers_of(journals, flow.target) == list(range(120))


def test_a_failing_task_is_tried_again_and_leaves_nothing(flow: Flow, journals: BlockingJournals) -> None:
    """The first attempt fails behind rows which it has written: Spark's own retry, with Spark's own task."""

    def failing_once(frame: DataFrame) -> DataFrame:
        @udf("long")
        def fragile(number):  # type: ignore[no-untyped-def]  # Spark would take types for those of pandas
            context = TaskContext.get()
            if number == 99 and context is not None and context.attemptNumber() == 0:
                raise RuntimeError("this attempt is lost")
            return number

        return frame.select(fragile("n").alias("n"))

    flow.run(failing_once)
    assert numbers_of(journals, flow.target) == list(range(100))


def test_a_reset_checkpoint_is_refused_until_the_sink_is_adopted(
    flow: Flow, brokers: Brokers, journals: BlockingJournals
) -> None:
    flow.run(sink="named")
    shutil.rmtree(flow.checkpoint)
    with pytest.raises(StreamingQueryException, match="belongs to query"):
        flow.run(sink="named")
    assert numbers_of(journals, flow.target) == list(range(100))
    access = shared_access(Connection(tuple(brokers.addresses), None, TIMEOUT_S))
    adopted = access.run(Transactions(access.journals, TRANSACTIONS).adopt("named"))
    assert adopted.batch >= 2
    flow.run(sink="named")  # who adopts without the old checkpoint wants everything again
    assert numbers_of(journals, flow.target) == sorted([*range(100), *range(100)])


def test_a_rewound_checkpoint_is_refused(flow: Flow, journals: BlockingJournals) -> None:
    flow.run()
    last = flow.forget_last_commit()
    for each in (flow.checkpoint / "offsets").glob(f"*{last}*"):
        each.unlink()  # the batch is planned anew, with more in it
    put(journals, flow.source, range(100, 140))
    with pytest.raises(StreamingQueryException, match="planned anew"):
        flow.run()
    assert numbers_of(journals, flow.target) == list(range(100))


def test_a_second_query_on_a_named_sink_is_refused(
    spark: SparkSession, brokers: Brokers, flow: Flow, journals: BlockingJournals, tmp_path: Path
) -> None:
    flow.run(sink="only-one")
    other = Flow(spark, brokers, tmp_path / "other", flow.source.removesuffix("/in"))
    with pytest.raises(StreamingQueryException, match="two queries share the sink"):
        other.run(sink="only-one")
    assert numbers_of(journals, flow.target) == list(range(100))


def test_a_zombie_which_commits_a_batch_again_changes_nothing(
    flow: Flow, brokers: Brokers, journals: BlockingJournals
) -> None:
    """What a driver which was stopped and let go does, in Spark's own order: write, then commit, of an old batch."""
    flow.run(sink="zombie")
    first = flow.batches()[0]
    for number in flow.batches()[1:]:
        for folder in ("commits", "offsets"):
            for each in (flow.checkpoint / folder).glob(f"*{number}*"):
                each.unlink()
    for each in (flow.checkpoint / "commits").glob(f"*{first}*"):
        each.unlink()
    with pytest.raises(StreamingQueryException, match="stale driver"):
        flow.run(sink="zombie")
    assert numbers_of(journals, flow.target) == list(range(100))


def test_batch_writes_are_one_transaction_and_a_txn_makes_them_repeatable(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals
) -> None:
    one, two = make(journals, "sink/batch/one"), make(journals, "sink/batch/two")
    rows = spark.range(0, 40, numPartitions=4).select(col("id").alias("n"))
    target = when(col("n") < 20, lit(one)).otherwise(lit(two))
    routed = rows.withColumn("_journal", target)
    writer = routed.write.format("journal").option("brokers", brokers.address)
    for _ in range(2):
        writer.option("txn", "nightly-2026-11-15").mode("append").save()
    assert (numbers_of(journals, one), numbers_of(journals, two)) == (list(range(20)), list(range(20, 40)))
    rows.write.format("journal").option("brokers", brokers.address).mode("append").save(one)
    assert numbers_of(journals, one) == sorted([*range(20), *range(40)])
    with pytest.raises(Exception, match="only ever appended to"):
        writer.mode("overwrite").save(one)
