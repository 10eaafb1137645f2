"""Several tables in one commit: for `foreachBatch`, where a stream feeds more than one table. Design: spark.md.

    def write(frame, batch):
        commit_together({
            "lake://shop@main/orders": frame,
            "lake://shop@main/counts": frame.groupBy("sku").count(),
        }, sink="shop", batch=batch, checkpoint="checkpoints/shop")

One record moves the branch and the sink's register: all tables of a batch, or none, and each batch once. All tables are
of one branch; what has to be atomic together belongs together.

Which query's batch it is, tasks know by themselves, unless the function runs behind Spark Connect: there the number is
the one which `foreachBatch` gave, and the query that of the checkpoint.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from penstock.kernel.errors import InvalidArgument
from penstock.lake.client.lake import LakeUrl
from penstock.lake.records.sink_batch import BatchFile, BatchOutcome, BatchTable, SinkPlace
from penstock.spark.journals.java_source import has_jvm
from penstock.spark.shared.checkpoint import plan_of, state_of
from penstock.spark.tables.lake_access import access_from, table_url
from penstock.spark.tables.lake_commit import Batch, commit_batch, place_of
from penstock.spark.tables.lake_format import check_types
from penstock.spark.tables.lake_sink import BATCH_PROPERTY, QUERY_PROPERTY
from penstock.spark.tables.lake_staging import stage

__all__ = ["commit_together", "stage_frame"]

UNNAMED: Final = ("", -1)  # the query and batch of tasks which know none
STAGED: Final = "path string, address string, size long, etag string, rows long, query string, batch long"


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
    if not sink:
        raise InvalidArgument("commit_together needs a sink: a name under which batches are numbered")
    targets = {text: table_url(text) for text in tables}
    branches = {(each.repository, each.ref) for each in targets.values()}
    if len(branches) != 1:
        raise InvalidArgument(f"one commit is of one branch, not of {len(branches)}: {', '.join(sorted(tables))}")
    access = access_from(options or {})
    target = next(iter(targets.values()))
    place = place_of(access, target)
    staged = {url: stage_frame(frame, place, targets[url], partition_by) for url, frame in tables.items()}
    query, number = _whose(staged, next(iter(tables.values())), batch, checkpoint)
    made = [BatchTable(targets[url].path, tuple(each.files), replaces) for url, each in staged.items()]
    work = Batch(query, sink, number, plan_of(checkpoint, number), pipeline)
    return commit_batch(access, target, place, work, [each for each in made if each.files or replaces])


class Staged:
    """What the tasks of one DataFrame have written, and for which batch they said it was."""

    def __init__(self, files: list[BatchFile], whose: set[tuple[str, int]]) -> None:
        self.files = files
        self.whose = whose


def stage_frame(frame: DataFrame, place: SinkPlace, target: LakeUrl, partition_by: tuple[str, ...] = ()) -> Staged:
    """Have tasks write a DataFrame as files of a table; nothing is visible before they are committed."""
    check_types(frame.schema)
    prefix = target.path

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY_PROPERTY) if context is not None else None
        number = context.getLocalProperty(BATCH_PROPERTY) if context is not None else None
        name = f"{int(number):06d}" if number else "part"
        files = stage(batches, place, prefix, name, partition_by)
        # Also a task without rows says whose it is: an empty batch has a number, too.
        rows = [[*_fields(each), query or "", int(number or -1)] for each in [*files, BatchFile("", "", 0, "")]]
        columns = [list(column) for column in zip(*rows, strict=True)]
        kinds = [pa.string(), pa.string(), pa.int64(), pa.string(), pa.int64(), pa.string(), pa.int64()]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        names = ["path", "address", "size", "etag", "rows", "query", "batch"]
        yield pa.RecordBatch.from_arrays(arrays, names=names)

    found = frame.mapInArrow(write, STAGED).collect()
    files = [BatchFile(row["path"], row["address"], row["size"], row["etag"], row["rows"]) for row in found]
    return Staged([each for each in files if each.path], {(row["query"], row["batch"]) for row in found})


def _fields(file: BatchFile) -> tuple[str, str, int, str, int]:
    return file.path, file.address, file.size, file.etag, file.rows


def _whose(staged: Mapping[str, Staged], frame: DataFrame, batch: int | None, checkpoint: str) -> tuple[str, int]:
    """The one query and batch which all tasks named; of a batch without tasks, the driver's thread knows it."""
    whose = set().union(*(each.whose for each in staged.values()))
    spark = frame.sparkSession
    if not whose and has_jvm(spark):
        named, counted = (spark.sparkContext.getLocalProperty(name) for name in (QUERY_PROPERTY, BATCH_PROPERTY))
        whose = {(named or "", int(counted) if counted else -1)}
    if whose <= {UNNAMED} and not has_jvm(spark):
        whose = {_by_checkpoint(batch, checkpoint)}
    if len(whose) != 1 or UNNAMED in whose:
        raise InvalidArgument("commit_together belongs into a foreachBatch function: its tasks know no batch")
    query, number = whose.pop()
    if batch is not None and batch != number:
        raise InvalidArgument(f"commit_together was given batch {batch}, and its tasks are of batch {number}")
    return query, number


def _by_checkpoint(batch: int | None, checkpoint: str) -> tuple[str, int]:
    """Behind Spark Connect a function's DataFrames are jobs of their own, and know nothing of its query."""
    if batch is None or not checkpoint:
        raise InvalidArgument(
            "with Spark Connect, commit_together must be told which batch it is for, and the query's checkpoint",
            next_step="commit_together(..., batch=the number which foreachBatch gave, checkpoint=checkpointLocation)",
        )
    return state_of(checkpoint).query, batch
