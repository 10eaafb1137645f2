"""Have tasks stage tagged rows for every sink of a flow, by one job. Design: spark-2.md S2.

A task splits its rows by sink and writes them. It answers one row: the query and the batch that Spark told it, and a
report of the files or the acknowledgements. Nothing that a task writes is visible before the driver commits it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from penstock.kernel.errors import InvalidArgument
from penstock.lake.records.sink_batch import BatchFile
from penstock.spark.journals.java_source import has_jvm
from penstock.spark.journals.journal_sink import SinkAttempt, SinkWritten
from penstock.spark.journals.ranges import shared_access
from penstock.spark.options import SinkOptions
from penstock.spark.pipelines.tagged import parts_of
from penstock.spark.shared.checkpoint import Plan, state_of
from penstock.spark.tables.lake_staging import StagedFiles
from penstock.spark.tables.staging_place import StagingPlace
from penstock.spark.tables.table_columns import TablePlan, conformed
from penstock.spark.versions import BATCH_PROPERTY, JOB_PROPERTY, QUERY_PROPERTY

__all__ = [
    "JobBatch",
    "StagedParts",
    "TableStage",
    "TaskAnswer",
    "batch_of",
    "run_tasks",
    "stage_journals",
    "stage_tables",
]

UNNAMED: Final = ("", -1)  # the query and batch of tasks which know none
ANSWER: Final = "query string, batch long, run string, report binary"
T = TypeVar("T")


class TableStage(msgspec.Struct, frozen=True):
    """Where a task writes the rows of one sink: the table with its columns, and which of them make folders below it."""

    plan: TablePlan
    partition_by: tuple[str, ...] = ()


class StagedParts(msgspec.Struct, frozen=True):
    """What tasks staged: a list of files for each table; and for which query and batch, as they said."""

    files: tuple[tuple[BatchFile, ...], ...]
    whose: frozenset[tuple[str, int]]


class JobBatch(msgspec.Struct, frozen=True):
    """A batch that no stream made: the id of its job as its query, its number, and its plan."""

    query: str
    number: int
    plan: Plan


class TaskAnswer(msgspec.Struct, frozen=True):
    """The answer of one task: the query and the batch that Spark told it, and the report of its work."""

    query: str
    batch: int
    run: str
    report: bytes

    @property
    def whose(self) -> tuple[str, int]:
        return self.query, self.batch


def stage_tables(frame: DataFrame, place: StagingPlace, tables: Sequence[TableStage]) -> StagedParts:
    """Write tagged rows as files of tables, a table for each sink; return the files."""
    stages = tuple(tables)

    def work(batches: Iterator[pa.RecordBatch], batch: int) -> list[list[BatchFile]]:
        name = f"{batch:06d}" if batch >= 0 else "part"
        attempts = [StagedFiles(place, each.plan.prefix, name, each.partition_by) for each in stages]
        schemas = [each.plan.arrow for each in stages]
        for tagged_rows in batches:
            for sink, rows in parts_of(tagged_rows):
                attempts[sink].add(conformed(rows, schemas[sink]))
        return [each.finish() for each in attempts]

    answers = run_tasks(frame, work)
    reports = [msgspec.msgpack.decode(each.report, type=list[list[BatchFile]]) for each in answers]
    files = tuple(tuple(file for report in reports for file in report[sink]) for sink in range(len(stages)))
    return StagedParts(files, frozenset(each.whose for each in answers))


def stage_journals(
    frame: DataFrame, sinks: Sequence[SinkOptions]
) -> tuple[list[SinkWritten], frozenset[tuple[str, int]]]:
    """Append tagged rows to journals, pending, a journal for each sink; return what acknowledges them."""
    options = tuple(sinks)

    def work(batches: Iterator[pa.RecordBatch], batch: int) -> tuple[int, list[dict[str, bytes]]]:
        attempts = [SinkAttempt(shared_access(each.connection), each) for each in options]
        for tagged_rows in batches:
            for sink, rows in parts_of(tagged_rows):
                attempts[sink].add(rows)
        return sum(each.rows for each in attempts), [each.finish() for each in attempts]

    answers = run_tasks(frame, work)
    written = []
    for each in answers:
        rows, intents = msgspec.msgpack.decode(each.report, type=tuple[int, list[dict[str, bytes]]])
        written += [SinkWritten(each.query, each.batch, each.run, 0, one) for one in intents]
        written.append(SinkWritten(each.query, each.batch, each.run, rows))
    return written, frozenset(each.whose for each in answers)


def batch_of(
    whose: frozenset[tuple[str, int]], spark: SparkSession, batch: int | None, checkpoint: str
) -> tuple[str, int]:
    """Return the one query and batch that all tasks named. Without tasks the thread of the driver knows it.

    Behind Spark Connect neither knows it: then the number is the caller's, and the query is that of the checkpoint.
    """
    found = set(whose)
    if not found and has_jvm(spark):
        named, counted = (spark.sparkContext.getLocalProperty(name) for name in (QUERY_PROPERTY, BATCH_PROPERTY))
        found = {(named or "", int(counted) if counted else -1)}
    if found <= {UNNAMED} and not has_jvm(spark):
        found = {_by_checkpoint(spark, batch, checkpoint)}
    if len(found) != 1 or UNNAMED in found:
        raise InvalidArgument("commit_together belongs into a foreachBatch function: its tasks know no batch")
    query, number = found.pop()
    if batch is not None and batch != number:
        raise InvalidArgument(f"commit_together was given batch {batch}, and its tasks are of batch {number}")
    return query, number


def _by_checkpoint(spark: SparkSession, batch: int | None, checkpoint: str) -> tuple[str, int]:
    """Take the query from the checkpoint: with Spark Connect a function's DataFrames are jobs of their own, and know
    nothing of its query.
    """
    if batch is None or not checkpoint:
        raise InvalidArgument(
            "with Spark Connect, commit_together needs the number of its batch, and the query's checkpoint",
            next_step="commit_together(..., batch=the number which foreachBatch gave, checkpoint=checkpointLocation)",
        )
    return state_of(checkpoint, spark).query, batch


def run_tasks(frame: DataFrame, work: Callable[[Iterator[pa.RecordBatch], int], object]) -> list[TaskAnswer]:
    """Run a function in every task of a DataFrame; return what each answered. A task without rows answers too."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        names = (QUERY_PROPERTY, BATCH_PROPERTY, JOB_PROPERTY)
        query, batch, of_run = (context.getLocalProperty(name) if context is not None else None for name in names)
        number = int(batch) if batch else -1
        report = msgspec.msgpack.encode(work(batches, number))
        row = {"query": query or "", "batch": number, "run": of_run or "", "report": report}
        kinds = {"query": pa.string(), "batch": pa.int64(), "run": pa.string(), "report": pa.binary()}
        yield pa.RecordBatch.from_pylist([row], schema=pa.schema(list(kinds.items())))

    return [TaskAnswer(**row.asDict()) for row in frame.mapInArrow(run, ANSWER).collect()]
