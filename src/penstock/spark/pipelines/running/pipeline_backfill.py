"""Backfill: write history by batch jobs, before the stream of a flow begins. Design: spark-2.md S7, S8.

A backfill is the first query of its sink. Each commit names the offsets where its batch begins
and ends, and the sink's register keeps the latter. No other place knows how far a backfill is. One that is killed
before a commit has done nothing. The next one, or the stream, continues where the last commit ended.
"""

import hashlib
from collections.abc import Callable
from typing import Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.kernel.errors import InvalidArgument, PreconditionFailed
from penstock.lake.records.sink_batch import SinkBody
from penstock.spark.journals.journal_source import JournalReader, limited
from penstock.spark.options import source_options
from penstock.spark.pipelines.ends import JournalEnd, LakeSink, LakeTable
from penstock.spark.pipelines.pipeline import Flow, Pipeline
from penstock.spark.pipelines.running.flow_start import BACKFILL, check_row_wise, only_journal
from penstock.spark.pipelines.running.pipeline_run import has_plan, publisher_of
from penstock.spark.pipelines.staging import JobBatch
from penstock.spark.pipelines.tagged import tagged
from penstock.spark.shared.checkpoint import Plan
from penstock.spark.shared.offsets import StreamOffset, journal_positions, positions_text

__all__ = ["backfill"]

BATCH_BYTES: Final = 32 << 30  # of journals, for each commit
STREAMS_ONLY: Final = frozenset({"maxBytesPerTrigger", "untilOffsets", "tasks"})
Offsets = dict[str, int]


def backfill(
    spark: SparkSession,
    pipeline: Pipeline,
    flow: Flow,
    *,
    batch_bytes: int = BATCH_BYTES,
    tell: Callable[[str], None] = lambda line: None,
) -> Offsets:
    """Write everything up to now, and return the end of each journal. The stream will begin there."""
    source = _source(flow)
    checkpoint = pipeline.checkpoint_of(flow)
    if has_plan(checkpoint, spark):
        raise PreconditionFailed(
            f"{flow.sink} has a checkpoint already: its stream has begun, and reads history by itself",
            next_step=f"run penstock pipeline status, or remove {checkpoint} and adopt the sink",
        )
    check_row_wise(spark, flow)
    publisher = publisher_of(flow, "")
    publisher.prepare()
    query = BACKFILL + hashlib.sha256(f"{flow.sink} {source.name}".encode()).hexdigest()[:24]
    register = publisher.register()
    number, begins = _reached(flow, query, register)
    first, ends = _history(source, begins)
    total = sum(ends.values())
    while True:
        upto = limited(first, ends, batch_bytes)
        frames = _frames(spark, flow, source, first, upto)
        publisher.publish(tagged(frames), number, JobBatch(query, number, _plan(begins, first, upto)))
        tell(f"{flow.name}: {sum(upto.values()):,} of {total:,} B are written")
        number, begins, first = number + 1, upto, upto
        if upto == ends:
            return ends


def _source(flow: Flow) -> JournalEnd:
    source = only_journal(flow)
    if source is None or flow.output_mode != "append":
        raise InvalidArgument(
            f"{flow.sink}: a backfill reads one journal, and its sinks append; run the stream: it reads history"
        )
    return source


def _reached(flow: Flow, query: str, register: SinkBody | None) -> tuple[int, Offsets]:
    """Return the next batch of a backfill, and where the one before ended."""
    if register is None or (register.batch < 0 and register.query == query):
        return 0, {}
    ends = journal_positions(register.ends)
    if register.query != query or ends is None:
        raise PreconditionFailed(
            f"sink {flow.sink} is at batch {register.batch} of query {register.query}: its stream has begun, "
            "and reads history by itself",
            next_step=f"run penstock pipeline run; or penstock pipeline adopt {flow.sink}, to begin again",
        )
    return register.batch + 1, ends


def _history(source: JournalEnd, begins: Offsets) -> tuple[Offsets, Offsets]:
    """Return begin and end of each journal's part: after the last commit, up to the journal's end now."""
    given = {name: text for name, text in source.options.items() if name not in STREAMS_ONLY} | {"path": source.name}
    if begins:
        given["startingOffsets"] = _json(begins)
    reader = JournalReader(source_options(given, is_stream=False), StructType())
    found = {info.spec.name: (begin, max(begin, end)) for info, begin, end in reader.wholes()}
    first = {name: begin for name, (begin, _) in found.items()}
    return {**begins, **first}, {**begins, **{name: end for name, (_, end) in found.items()}}


def _frames(spark: SparkSession, flow: Flow, source: JournalEnd, begins: Offsets, ends: Offsets) -> list[DataFrame]:
    """Return the function's results for a part of history, in the order of the sinks."""
    is_ordered = not any(isinstance(each, LakeSink) for each in flow.sinks.values())
    # Readers of journals get rows in the order in which they were committed.
    rows = source.read(spark, is_ordered=is_ordered, startingOffsets=_json(begins), endingOffsets=_json(ends))
    inputs = {name: each.read(spark) if isinstance(each, LakeTable) else rows for name, each in flow.sources.items()}
    return list(flow.apply(inputs).values())


def _plan(begins: Offsets, first: Offsets, ends: Offsets) -> Plan:
    """Return what a commit says of its batch. Journals that are seen first have their begin in it."""
    new = {name: at for name, at in first.items() if begins.get(name) != at}
    offsets = msgspec.json.encode(StreamOffset(ends, new).to_dict()).decode()
    begun, ended = positions_text([{**new, **begins}]), positions_text([ends])
    return Plan(hashlib.sha256(f"{begun}{ended}".encode()).hexdigest(), offsets, begun, ended)


def _json(offsets: Offsets) -> str:
    return msgspec.json.encode(offsets, order="sorted").decode()
