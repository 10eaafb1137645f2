"""A driver on a cluster of two hosts, whose first task is so slow that Spark starts it a second time elsewhere.

    python -m tests.spark.speculation MASTER PLACE FOLDER

The slow attempt has written all its rows when it begins to wait; it is woken when the query has ended, so that it goes
on as late as any attempt can. FOLDER tells who did what: `wrote-<partition>-<attempt>`, `woke-<partition>-<attempt>`.
Spark speculates on no host which has an attempt already, and never in local mode: hence the cluster.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from tests.spark.routes import Place, read

import penstock.spark
from penstock.spark.journals.journal_format import JournalFormat
from penstock.spark.journals.journal_sink import JournalStreamWriter, SinkWritten
from penstock.spark.options import sink_options
from penstock.spark.tables.lake_format import LakeFormat
from penstock.spark.tables.lake_sink import StreamSink
from penstock.spark.versions import DataSourceStreamArrowWriter

FOLDER = "SPECULATION_FOLDER"
WAIT_S = 300.0
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.python.task.killTimeout": "600s",  # the attempt which lost is not killed while it waits
    "spark.speculation": "true",
    "spark.speculation.efficiency.enabled": "false",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}


def linger(rows: int) -> None:
    """Say that this attempt has written; the first one of the first partition with rows then waits to be woken."""
    context = TaskContext.get()
    assert context is not None
    name = f"{context.partitionId()}-{context.attemptNumber()}"
    folder = Path(os.environ[FOLDER])
    (folder / f"wrote-{name}").touch()
    if rows and name == "0-0":
        wait_for(folder / "release")
        (folder / f"woke-{name}").touch()


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} did not come"
        time.sleep(0.05)


class SlowWriter(JournalStreamWriter):
    """A sink of journals with a slow task."""

    def write(self, iterator: Iterator[Any]) -> SinkWritten:
        written = super().write(iterator)
        linger(written.rows)
        return written


class SlowFormat(JournalFormat):
    """The format `journal`, with a slow task."""

    @classmethod
    def name(cls) -> str:
        return "slow"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return SlowWriter(sink_options(dict(self.options), is_stream=True))


class SlowSink(StreamSink):
    """A sink of the lake with a slow task."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        wrote = self.stage(iterator)
        linger(len(wrote.files))
        return wrote


class SlowLakeFormat(LakeFormat):
    """The format `lake`, with a slow task."""

    @classmethod
    def name(cls) -> str:
        return "slow_lake"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return SlowSink(self._settings(schema, overwrite=overwrite), schema)


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as they are, by a task which is slow to end: its files are written after everybody else's."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        yield batch
    linger(rows)


def writer_of(session: Any, place: Place) -> Any:
    """Return a query of one batch of two tasks, to be started."""
    rows = read(session, place, "journal", trigger_bytes="1000000").repartition(2)
    if place.route == "journal":
        target = f"if(n % 2 = 0, '{place.target}/even', '{place.target}/odd') as _journal"
        writer = rows.selectExpr("n", target).writeStream.format("slow").option("brokers", place.brokers)
    elif place.route == "lake":
        writer = rows.writeStream.format("slow_lake").options(**place.lake).option("path", f"{place.target}/rows")
    else:

        def together(batch: DataFrame, number: int) -> None:
            even = batch.where("n % 2 = 0").repartition(2).mapInArrow(slowly, "n long")
            tables = {f"{place.target}/even": even, f"{place.target}/odd": batch.where("n % 2 = 1")}
            penstock.spark.commit_together(tables, sink="route", options=place.lake)

        writer = rows.writeStream.foreachBatch(together)
    if place.route != "together":
        writer = writer.option("sink", "slow")
    return writer.option("checkpointLocation", place.checkpoint)


def main(master: str, place: str, folder: str) -> None:
    from tests.spark.conftest import builder, end_jvm, run_to_end

    found = msgspec.json.decode(place, type=Place)
    settings = {
        **SETTINGS,
        f"spark.executorEnv.{FOLDER}": folder,
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    }
    building = builder(Path(folder) / "spark", master)
    for name, text in settings.items():
        building = building.config(name, text)
    session = building.getOrCreate()
    try:
        penstock.spark.register(session)
        session.dataSource.register(SlowFormat)
        session.dataSource.register(SlowLakeFormat)
        run_to_end(writer_of(session, found))
        (Path(folder) / "release").touch()
        wait_for(Path(folder) / "woke-0-0")
    finally:
        session.stop()
        end_jvm()


if __name__ == "__main__":
    from tests.spark import speculation

    speculation.main(*sys.argv[1:])
