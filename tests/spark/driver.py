"""A Spark driver of its own process, from one journal into another, which ends with kill -9 where it is told to.

    python -m tests.spark.driver BROKERS SOURCE TARGET CHECKPOINT [POINT]

The points are steps of the source and of the sink, in the batch `KILL_BATCH`. Where one is reached, whoever reaches it
(a planner or a task) kills the JVM, the driver's Python and itself; or, for `stop:POINT`, stops them, as a machine does
which is paused. Product code knows nothing of this: the format here is a subclass of it.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from penstock.spark.journal_format import JournalFormat
from penstock.spark.journal_sink import Committer, JournalStreamWriter, Written
from penstock.spark.journal_source import JournalStreamReader
from penstock.spark.options import SinkOptions, SourceOptions, sink_options, source_options
from penstock.spark.transactions import Record

KILL_BATCH = 1
POINTS = (
    "source: planned",
    "source: before a state is kept",
    "source: after a state is kept",
    "sink: after a task",
    "sink: before the record",
    "sink: after the record",
    "sink: half published",
    "sink: published",
)
POINT, DRIVER, MARK = "PENSTOCK_TEST_POINT", "PENSTOCK_TEST_DRIVER", "PENSTOCK_TEST_MARK"


def reach(point: str) -> None:
    """Kill or stop the driver, if this is the point."""
    wanted = os.environ.get(POINT, "")
    if wanted.removeprefix("stop:") != point:
        return
    driver, victims, pid = int(os.environ[DRIVER]), list[int](), os.getppid()
    while pid > 1:
        victims.insert(0, pid)
        if pid == driver:
            break
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    mark = Path(os.environ[MARK])
    if wanted.startswith("stop:"):
        if mark.exists():
            return
        mark.write_text(json.dumps([*victims, os.getpid()]))
        signals = signal.SIGSTOP
    else:
        signals = signal.SIGKILL
    for victim in [*victims, os.getpid()]:
        os.kill(victim, signals)


class KillingReader(JournalStreamReader):
    """A source which dies."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._batches = 0

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        found = super().latestOffset(start, limit)
        self._batches += found != start
        if self._batches > KILL_BATCH:
            reach("source: planned")
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        is_it = getattr(partition, "begin", 0) > 0
        for batch in super().read(partition):
            yield batch
            if is_it:
                reach("source: before a state is kept")
        if is_it:
            reach("source: after a state is kept")


class KillingCommitter(Committer):
    """A driver which dies in its commit."""

    def record(self, wanted: Record) -> Record:
        if wanted.batch == KILL_BATCH:
            reach("sink: before the record")
        recorded = super().record(wanted)
        if wanted.batch == KILL_BATCH:
            reach("sink: after the record")
        return recorded

    def publish(self, record: Record) -> None:
        if record.batch == KILL_BATCH and "half" in os.environ.get(POINT, ""):
            some = {journal: record.intents[journal] for journal in sorted(record.intents)[:1]}
            super().publish(msgspec.structs.replace(record, intents=some))
            reach("sink: half published")
        super().publish(record)
        if record.batch == KILL_BATCH:
            reach("sink: published")


class KillingWriter(JournalStreamWriter):
    """A sink which dies."""

    def committer(self) -> Committer:
        return KillingCommitter(self.options)

    def write(self, iterator: Iterator[Any]) -> Written:
        written = super().write(iterator)
        if written.batch == KILL_BATCH and written.rows:
            reach("sink: after a task")
        return written


class KillingFormat(JournalFormat):
    """The format, for a driver which dies."""

    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return KillingReader(source_options(dict(self.options), is_stream=True), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        options: SinkOptions = sink_options(dict(self.options), is_stream=True)
        return KillingWriter(options)


def start(session: Any, kind: str, brokers: str, source: str, target: str, checkpoint: str) -> Any:
    """The query: even numbers into one journal, odd ones into the other, so that a commit has two of them."""
    frame = session.readStream.format(kind).option("brokers", brokers).option("maxBytesPerTrigger", "2500")
    frame = frame.schema("n long").load(source)
    frame = frame.selectExpr("n", f"if(n % 2 = 0, '{target}/even', '{target}/odd') as _journal")
    sink = frame.writeStream.format(kind).option("brokers", brokers).option("checkpointLocation", checkpoint)
    return sink.option("sink", target).trigger(availableNow=True).start()


def main(brokers: str, source: str, target: str, checkpoint: str, point: str = "") -> None:
    from tests.spark.conftest import builder, end_jvm

    os.environ.update({POINT: point, DRIVER: str(os.getpid()), MARK: checkpoint + ".mark"})
    session = builder(Path(checkpoint + ".spark")).getOrCreate()
    try:
        session.dataSource.register(KillingFormat)
        start(session, "killing", brokers, source, target, checkpoint).awaitTermination()
    finally:
        session.stop()
        end_jvm()


if __name__ == "__main__":
    from tests.spark import driver  # so that its classes have a name which workers can import

    driver.main(*sys.argv[1:])
