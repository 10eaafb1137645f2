"""Several tables in one commit: for `foreachBatch`, where a stream feeds more than one table. Design: spark.md.

    def write(frame, batch):
        commit_together({
            "lake://shop@main/orders": frame,
            "lake://shop@main/counts": frame.groupBy("sku").count(),
        }, sink="shop", batch=batch, checkpoint="checkpoints/shop")

One record moves the branch and the sink's register: all tables of a batch, or none, and each batch once. All tables are
of one branch, so one commit covers them all.

Tasks know by themselves which query's batch it is, unless the function runs with Spark Connect: then the number is the
one from `foreachBatch`, and the query that of the checkpoint.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from pyspark.sql import DataFrame

from penstock.kernel.errors import InvalidArgument, TableChanged
from penstock.lake.records.sink_batch import BatchOutcome
from penstock.spark.pipelines.staging import JobBatch, TableStage, batch_of, stage_tables
from penstock.spark.pipelines.tagged import kinds_of, tagged
from penstock.spark.shared.checkpoint import plan_of
from penstock.spark.tables.lake_access import access_from, table_url
from penstock.spark.tables.lake_commit import Batch, commit_batch
from penstock.spark.tables.lake_format import check_types
from penstock.spark.tables.staging_place import place_of
from penstock.spark.tables.table_columns import plan_table

__all__ = ["TableWrite", "TogetherOutcome", "commit_tagged", "commit_together"]


TRIES: Final = 5


class TableWrite(msgspec.Struct, frozen=True):
    """What a batch does to one table: adds rows, or replaces all of it with them."""

    url: str
    replaces: bool = False
    partition_by: tuple[str, ...] = ()


class TogetherOutcome(msgspec.Struct, frozen=True):
    """What became of a batch, and how many rows it has."""

    batch: BatchOutcome
    rows: int


def commit_together(
    tables: Mapping[str, DataFrame],
    *,
    sink: str,
    replaces: bool = False,
    partition_by: tuple[str, ...] = (),
    batch: int | None = None,
    checkpoint: str = "",
    pipeline: str = "",
    options: Mapping[str, str] | None = None,
) -> BatchOutcome:
    """Commit the DataFrames of one micro-batch, each to its table. Call it once in a `foreachBatch` function.

    `batch` is the number which that function is given; with Spark Connect it must be given, and `checkpoint` too.
    """
    for frame in tables.values():
        check_types(frame.schema)
    writes = [TableWrite(url, replaces, partition_by) for url in tables]
    rows = tagged(list(tables.values()))
    return commit_tagged(
        rows, writes, sink=sink, batch=batch, checkpoint=checkpoint, pipeline=pipeline, options=options
    ).batch


def commit_tagged(
    rows: DataFrame,
    writes: Sequence[TableWrite],
    *,
    sink: str,
    batch: int | None = None,
    checkpoint: str = "",
    pipeline: str = "",
    options: Mapping[str, str] | None = None,
    job: JobBatch | None = None,
) -> TogetherOutcome:
    """Commit the tagged rows of one batch: those of the first sink to the first table, and so on.

    Tasks of a micro-batch know which one it is. `job` names a batch of no stream, with its plan.
    """
    if not sink:
        raise InvalidArgument("commit_together needs a sink: a name under which batches are numbered")
    targets = [table_url(each.url) for each in writes]
    branches = {(each.repository, each.ref) for each in targets}
    if len(branches) != 1:
        named = ", ".join(sorted(each.url for each in writes))
        raise InvalidArgument(f"one commit is of one branch, not of {len(branches)}: {named}")
    access, target = access_from(options or {}), targets[0]
    for tries_left in reversed(range(TRIES)):
        place = place_of(access, target)
        plans = [
            plan_table(access, to, kind, replaces=each.replaces)
            for to, kind, each in zip(targets, kinds_of(rows), writes, strict=True)
        ]
        stages = [TableStage(plan, each.partition_by) for plan, each in zip(plans, writes, strict=True)]
        staged = stage_tables(rows, place, stages)
        if job is None:
            query, number = batch_of(staged.whose, rows.sparkSession, batch, checkpoint)
            job = JobBatch(query, number, plan_of(checkpoint, number, rows.sparkSession))
        tables = [plan.table(place, files) for plan, files in zip(plans, staged.files, strict=True)]
        work = Batch(job.query, sink, job.number, job.plan, pipeline)
        try:
            outcome = commit_batch(access, target, place, work, [each for each in tables if each is not None])
            return TogetherOutcome(outcome, sum(file.rows for files in staged.files for file in files))
        except TableChanged:
            if not tries_left or all(each.replaces for each in writes):
                raise
            # Another writer has added columns to a table: the same rows are staged again, with all of them.
    raise AssertionError("the last try returns or raises")
