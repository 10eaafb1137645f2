"""A Spark driver of its own process, on one of the routes, which ends with kill -9 where it is told to.

    python -m tests.spark.driver PLACE [POINT]

PLACE is JSON. The points are steps of the source and of the sink, in the batch `KILL_BATCH`; `stop:POINT` freezes the
driver there (SIGSTOP) instead. Product code knows nothing of this: the formats here are subclasses of it.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql.datasource import (
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType
from tests.spark.killing import DRIVER, KILL_BATCH, MARK, POINT, killing, reach

import penstock.spark
from penstock.spark.journals.journal_format import JournalFormat
from penstock.spark.journals.journal_sink import Committer, JournalStreamWriter, SinkWritten
from penstock.spark.journals.journal_source import JournalStreamReader
from penstock.spark.journals.transaction_rule import Record
from penstock.spark.options import SourceOptions, sink_options, source_options
from penstock.spark.pipelines import pipeline_audit, staging, together
from penstock.spark.pipelines.staging import StagedParts
from penstock.spark.tables.lake_access import LakeAccess, access_from
from penstock.spark.tables.lake_commit import Batch
from penstock.spark.tables.lake_format import LakeFormat
from penstock.spark.tables.lake_sink import StreamSink, Wrote
from penstock.spark.versions import DataSourceStreamArrowWriter, ReadLimit


class KillingReader(JournalStreamReader):
    """A source which dies."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._batches = 0

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
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
    """A sink of journals which dies."""

    def committer(self) -> Committer:
        return KillingCommitter(self.options)

    def write(self, iterator: Iterator[Any]) -> SinkWritten:
        written = super().write(iterator)
        if written.batch == KILL_BATCH and written.rows:
            reach("sink: after a task")
        return written


class KillingFormat(JournalFormat):
    """The format `journal`, for a driver which dies."""

    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return KillingReader(source_options(dict(self.options), is_stream=True), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return KillingWriter(sink_options(dict(self.options), is_stream=True))


class KillingSink(StreamSink):
    """A sink of the lake which dies."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        wrote = super().write(iterator)
        assert isinstance(wrote, Wrote)
        if wrote.batch == KILL_BATCH and wrote.files:
            reach("sink: after a task")
        return wrote

    def commit_as(self, batch: Batch, messages: Any) -> None:
        if batch.number == KILL_BATCH:
            reach("sink: before the list")
        super().commit_as(batch, messages)


class KillingLakeFormat(LakeFormat):
    """The format `lake`, for a driver which dies."""

    @classmethod
    def name(cls) -> str:
        return "killing_lake"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        settings = self._settings(schema, overwrite=overwrite)
        return KillingSink(msgspec.structs.replace(settings, access=killing(settings.access)), schema)


def die_in_pipelines() -> None:
    """The steps of `foreachBatch` run in this very process."""

    def access(options: Mapping[str, str]) -> LakeAccess:
        return killing(access_from(options))

    def stage_tables(frame: DataFrame, *rest: Any) -> StagedParts:
        staged = stage(frame, *rest)
        if any(number == KILL_BATCH for _, number in staged.whose):
            reach("sink: tables staged")
        return staged

    stage = staging.stage_tables
    setattr(together, "stage_tables", stage_tables)  # noqa: B010
    for module in (together, pipeline_audit):
        setattr(module, "access_from", access)  # noqa: B010


def main(place: str, point: str = "") -> None:
    from tests.spark.conftest import builder, end_jvm
    from tests.spark.routes import ROUTES, Place

    found = msgspec.json.decode(place, type=Place)
    os.environ.update({POINT: point, DRIVER: str(os.getpid()), MARK: found.checkpoint + ".mark"})
    die_in_pipelines()
    session = builder(Path(found.checkpoint + ".spark")).getOrCreate()
    try:
        penstock.spark.register(session)
        session.dataSource.register(KillingFormat)
        session.dataSource.register(KillingLakeFormat)
        ROUTES[found.route].run(session, found, is_killing=True)
    finally:
        session.stop()
        end_jvm()


if __name__ == "__main__":
    from tests.spark import driver

    driver.main(*sys.argv[1:])
