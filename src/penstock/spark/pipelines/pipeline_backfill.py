"""Backfill: history as one batch job; the stream then continues from the exact offset where it ended. Design: spark.md
"Large backlogs".

The end of history is decided once and written next to the checkpoint before anything is read; the batch write is named
after the flow, so that a repeated backfill does nothing twice; the stream begins at the written end.
"""

from pathlib import Path
from typing import Final

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.kernel.errors import InvalidArgument, PreconditionFailed
from penstock.spark.journals.journal_source import Planner
from penstock.spark.options import has_stream_option, source_options
from penstock.spark.pipelines.ends import Journal, LakeSink, LakeTable
from penstock.spark.pipelines.pipeline import Flow, Pipeline
from penstock.spark.pipelines.pipeline_run import STARTING

__all__ = ["backfill"]

WHOLE: Final = "append"


def backfill(spark: SparkSession, pipeline: Pipeline, flow: Flow) -> dict[str, int]:
    """Write everything up to now as one batch; the end of each journal, where the stream will begin."""
    source, sink = _ends(flow)
    checkpoint = pipeline.checkpoint_of(flow)
    if (checkpoint / "metadata").is_file():
        raise PreconditionFailed(
            f"{flow.sink} has a checkpoint already: its stream has begun, and reads history by itself",
            next_step=f"penstock pipeline status, or remove {checkpoint} and adopt the sink",
        )
    ends = _decided(checkpoint, source)
    is_ordered = isinstance(sink, Journal)  # its readers get rows in the journal's order
    frame = source.read(spark, is_ordered=is_ordered, endingOffsets=msgspec.json.encode(ends).decode())
    tables = {name: each.read(spark) for name, each in flow.sources.items() if isinstance(each, LakeTable)}
    name = next(name for name, each in flow.sources.items() if each is source)
    (result,) = flow.apply({name: frame, **tables}).values()
    writer = result.write.mode("append").option("txn", f"{flow.sink}.backfill")
    if isinstance(sink, LakeSink):
        options = {**sink.options, "pipeline": flow.pipeline}
        if sink.partition_by:
            options["partitionBy"] = ",".join(sink.partition_by)
        writer.format("lake").options(**options).save(sink.url)
    else:
        writer.format("journal").options(**sink.options).save(sink.name)
    return ends


def _ends(flow: Flow) -> tuple[Journal, Journal | LakeSink]:
    (source, *others), (sink, *more) = list(flow.streams.values()), list(flow.sinks.values())
    if others or more or not isinstance(source, Journal) or flow.is_audited or flow.output_mode != WHOLE:
        raise InvalidArgument(
            f"{flow.sink}: a backfill is of one journal into one sink without checks; run the stream: it reads history"
        )
    return source, sink


def _decided(checkpoint: Path, source: Journal) -> dict[str, int]:
    """Return where history ends: as an earlier try decided, else at the present ends of the journals."""
    path = checkpoint.parent / f"{checkpoint.name}.{STARTING}"
    if path.is_file():
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    ends = heads_of(source)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(ends))
    new.rename(path)
    return ends


def heads_of(source: Journal) -> dict[str, int]:
    """Return the present ends of a source's journals."""
    given = {name.lower(): text for name, text in source.options.items()} | {"path": source.name}
    planner = Planner(source_options(given, is_stream=has_stream_option(given)), StructType())
    return {name: head.end for name, head in planner.heads(dict.fromkeys(planner.journals(), 0)).items()}
