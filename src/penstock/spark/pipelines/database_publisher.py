"""The batches of a flow whose sinks are tables of a PostgreSQL database. Design: spark-2.md P7.

A task copies its rows into stages, under an id of its own. The driver's one transaction takes the rows of the attempts
that answered. A stage belongs to one driver: the next driver of the sink drops it.
"""

import secrets
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.lake.core.staging.proposing.sink_rule import BatchOffer
from penstock.lake.records.sink_batch import SinkBody
from penstock.spark.databases.postgres_rule import (
    TableTarget,
    commit,
    create_register,
    drop_stages,
    registered,
    stage_name,
)
from penstock.spark.databases.postgres_stage import CopyAttempt, connect, create_stage, create_table
from penstock.spark.pipelines.ends import PostgresSink
from penstock.spark.pipelines.pipeline import Flow
from penstock.spark.pipelines.staging import JobBatch, batch_of, run_tasks
from penstock.spark.pipelines.tagged import kinds_of, parts_of
from penstock.spark.shared.checkpoint import plan_of

__all__ = ["DatabasePublisher"]


class DatabasePublisher:
    """Writes the batches of one flow into tables of one database, by one transaction each."""

    def __init__(self, flow: Flow, checkpoint: str) -> None:
        self.flow = flow
        self.rows: dict[int, int] = {}  # of the newest batch
        self._checkpoint = checkpoint
        self._ends = tuple(each for each in flow.sinks.values() if isinstance(each, PostgresSink))
        self._url = self._ends[0].url
        self._token = secrets.token_hex(4)
        self._targets: tuple[TableTarget, ...] = ()

    def prepare(self) -> None:
        """Make the register, and drop the stages of earlier drivers."""
        with connect(self._url) as connection:
            create_register(connection)
            drop_stages(connection, self.flow.sink)

    def publish(self, rows: DataFrame, batch: int, job: JobBatch | None = None) -> None:
        """Commit one batch of tagged rows."""
        if not self._targets:
            self._targets = tuple(self._made(rows))
        attempts, count, whose = stage_rows(rows, self._url, self._targets)
        if job is None:
            query, number = batch_of(whose, rows.sparkSession, batch, self._checkpoint)
            job = JobBatch(query, number, plan_of(self._checkpoint, number, rows.sparkSession))
        offer = BatchOffer(job.query, job.number, job.plan.guard, job.plan.begins, job.plan.ends)
        with connect(self._url) as connection:
            commit(connection, self.flow.sink, offer, self._targets, attempts)
        self.rows = {batch: count}

    def _made(self, rows: DataFrame) -> Iterator[TableTarget]:
        """Make tables that are missing, and a stage for each."""
        with connect(self._url) as connection:
            for number, (end, schema) in enumerate(zip(self._ends, kinds_of(rows), strict=True)):
                stage = stage_name(self.flow.sink, self._token, number)
                create_table(connection, end.table, schema, end.keys)
                create_stage(connection, stage, schema)
                yield TableTarget(end.table, stage, tuple(schema.names), end.mode, end.keys, end.order_by)

    def register(self) -> SinkBody | None:
        """Return the sink's last batch, as the database has it; None before the first batch."""
        with connect(self._url) as connection:
            return registered(connection, self.flow.sink)


def stage_rows(
    frame: DataFrame, url: str, targets: tuple[TableTarget, ...]
) -> tuple[list[str], int, frozenset[tuple[str, int]]]:
    """Copy tagged rows into the stages of their tables; return the attempts that won, and the number of rows."""

    def work(batches: Iterator[pa.RecordBatch], batch: int) -> tuple[str, int]:
        attempt, connection = secrets.token_hex(12), None
        copies: dict[int, CopyAttempt] = {}
        try:
            for tagged_rows in batches:
                connection = connection or connect(url)
                for sink, rows in parts_of(tagged_rows):
                    copies.setdefault(sink, CopyAttempt(connection, targets[sink].stage, attempt)).add(rows)
        finally:
            if connection is not None:
                connection.close()
        return attempt, sum(each.rows for each in copies.values())

    answers = run_tasks(frame, work)
    reports: list[Any] = [msgspec.msgpack.decode(each.report, type=tuple[str, int]) for each in answers]
    return [one for one, _ in reports], sum(many for _, many in reports), frozenset(each.whose for each in answers)
