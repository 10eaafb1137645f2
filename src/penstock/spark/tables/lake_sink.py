"""The writers of the format `lake`. Design: spark.md "Lake sink", "Sink identity", "Batch writers".

`write` runs in tasks: it stages files under a random attempt id, and says which, for which query and batch. `commit`
runs on the driver and commits them all by one record. Attempts which lost, zombies and repeated drivers leave nothing
visible: their files are never linked, and the sink's register takes each batch once. `abort` does nothing: it may come
after the commit took effect, and staged files are collected by age.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.kernel.errors import InvalidArgument, TableChanged
from penstock.lake.client.lake import LakeUrl
from penstock.lake.records.sink_batch import BatchFile
from penstock.spark.shared.checkpoint import plan_of
from penstock.spark.tables.lake_access import LakeAccess
from penstock.spark.tables.lake_commit import Batch, commit_batch
from penstock.spark.tables.lake_staging import stage
from penstock.spark.tables.staging_place import place_of
from penstock.spark.tables.table_columns import conformed, plan_table
from penstock.spark.versions import BATCH_PROPERTY, QUERY_PROPERTY, DataSourceStreamArrowWriter

__all__ = ["BatchSink", "SinkSettings", "StreamSink", "Wrote"]


class SinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the options of a writer say."""

    target: LakeUrl
    access: LakeAccess
    sink: str = ""
    txn: str = ""
    replaces: bool = False
    partition_by: tuple[str, ...] = ()
    checkpoint: str = ""
    pipeline: str = ""
    message: str = ""
    base: str = ""  # of a rewrite: the commit that was read, or any


@dataclass
class Wrote(WriterCommitMessage):
    """What a task has staged, for which batch of which query; neither is known outside of streams."""

    files: list[BatchFile]
    query: str = ""
    batch: int = -1
    etag: str = ""  # of the table's schema as the task knew it


class _Sink:
    def __init__(self, settings: SinkSettings, schema: StructType) -> None:
        self.settings = settings
        self.place = place_of(settings.access, settings.target)
        self.plan = plan_table(settings.access, settings.target, schema, replaces=settings.replaces)

    def stage(self, batches: Iterator[pa.RecordBatch]) -> Wrote:
        query, batch = _whose()
        name = f"{batch:06d}" if batch >= 0 else "part"
        schema = self.plan.arrow
        rows = (conformed(each, schema) for each in batches)
        files = stage(rows, self.place, self.settings.target.path, name, self.settings.partition_by)
        return Wrote(files, query, batch, self.plan.etag)

    def commit_as(self, batch: Batch, messages: Sequence[Wrote]) -> None:
        settings = self.settings
        if any(each.etag != self.plan.etag for each in messages):
            raise TableChanged(
                f"table {settings.target.path} has got other columns, and nothing is committed. "
                "Next: run it again, and the rows are written with these"
            )
        files = tuple(each for message in messages for each in message.files)
        table = self.plan.table(self.place, files, settings.base)
        commit_batch(settings.access, settings.target, self.place, batch, [] if table is None else [table])


class StreamSink(_Sink, DataSourceStreamArrowWriter):
    """One commit for each micro-batch."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        wrote = self.stage(iterator)
        if not wrote.query or wrote.batch < 0:
            raise InvalidArgument("this task knows neither query nor batch: is this a streaming query of PySpark 4?")
        return wrote

    def commit(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:
        wrote = checked(messages, batchId)
        query = wrote[0].query
        settings = self.settings
        self.commit_as(
            Batch(
                query,
                settings.sink or query,
                batchId,
                plan_of(settings.checkpoint, batchId),
                settings.pipeline,
                settings.message,
            ),
            wrote,
        )

    def abort(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:
        pass


class BatchSink(_Sink, DataSourceArrowWriter):
    """One commit for the job. The id made here is the job's transaction; `txn` names a transaction that outlives it."""

    def __init__(self, settings: SinkSettings, schema: StructType) -> None:
        super().__init__(settings, schema)
        self.id = secrets.token_hex(16)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.stage(iterator)

    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        settings, wrote = self.settings, _whole(messages)
        query, number = wrote[0].query, wrote[0].batch
        is_in_stream = bool(query) and number >= 0
        if is_in_stream and not (settings.txn or settings.sink):
            # Two writes of one batch would look like one and its replay, and the second would vanish.
            raise InvalidArgument(
                "inside foreachBatch a write needs a name of its own: option sink or txn; "
                "or commit all of a batch together with penstock.spark.commit_together"
            )
        if settings.sink and not is_in_stream:
            raise InvalidArgument("a sink numbers the batches of a stream; a job of its own has the option txn")
        if settings.txn:
            batch = Batch(settings.txn, f"txn/{settings.txn}", 0)
        elif settings.sink:
            batch = Batch(query, settings.sink, number)
        else:
            batch = Batch(self.id)
        named = msgspec.structs.replace(batch, pipeline=settings.pipeline, message=settings.message)
        self.commit_as(named, wrote)

    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        pass


def checked(messages: "Sequence[WriterCommitMessage | None]", batch: int) -> list[Wrote]:
    """Return the tasks' files, if all of them are of one query and of this batch."""
    wrote = _whole(messages)
    if len({each.query for each in wrote}) > 1 or any(each.batch != batch for each in wrote):
        raise InvalidArgument(f"batch {batch} has messages of another query or batch: they are not committed together")
    return wrote


def _whole(messages: "Sequence[WriterCommitMessage | None]") -> list[Wrote]:
    wrote = [each for each in messages if isinstance(each, Wrote)]
    if not wrote or len(wrote) < len(messages):
        raise InvalidArgument(
            f"{len(messages) - len(wrote)} of {len(messages)} tasks said nothing: nothing is committed"
        )
    return wrote


def _whose() -> tuple[str, int]:
    """Query and batch of the task which runs here."""
    context = TaskContext.get()
    query = context.getLocalProperty(QUERY_PROPERTY) if context is not None else None
    batch = context.getLocalProperty(BATCH_PROPERTY) if context is not None else None
    return query or "", int(batch) if batch else -1
