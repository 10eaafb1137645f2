"""Writing journals with Spark: every row once, whatever happens to tasks and drivers."""

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

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.publisher import Publisher
from penstock.messages.uuid import producer_id

pytestmark = pytest.mark.timeout(600)
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
        frame = change(reader.schema("n long").option("maxBytesPerTrigger", "5000").load(self.source))
        sink = frame.writeStream.format("journal").option("brokers", self._brokers.address).options(**settings)
        sink = sink.option("checkpointLocation", str(self.checkpoint))
        return run_to_end(sink, self.target)

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


def failing_once(frame: DataFrame) -> DataFrame:
    """The first attempt of a task fails, behind rows which it has written."""

    @udf("long")
    def fragile(number):  # type: ignore[no-untyped-def]  # Spark would take types for those of pandas
        context = TaskContext.get()
        if number == 99 and context is not None and context.attemptNumber() == 0:
            raise RuntimeError("this attempt is lost")
        return number

    return frame.select(fragile("n").alias("n"))


def test_rows_arrive_once_through_failing_tasks_replays_and_a_rival(
    spark: SparkSession, brokers: Brokers, flow: Flow, journals: BlockingJournals, tmp_path: Path
) -> None:
    flow.run(failing_once, sink="only-one")  # Spark's own retry, with Spark's own task
    assert len(flow.batches()) == 2
    assert numbers_of(journals, flow.target) == list(range(100))
    put(journals, flow.source, range(100, 120))
    flow.forget_last_commit()  # so it comes again
    flow.run(sink="only-one")
    assert numbers_of(journals, flow.target) == list(range(120))
    rival = Flow(spark, brokers, tmp_path / "rival", flow.source.removesuffix("/in"))
    with pytest.raises(StreamingQueryException, match="two queries share the sink"):
        rival.run(sink="only-one")
    assert numbers_of(journals, flow.target) == list(range(120))


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
