"""Decide where a flow without a checkpoint begins: where its sink's last commit ended. Design: spark-2.md S7, S8.

The sink's register is the only truth about it. What a backfill has committed, or a stream whose checkpoint was lost, is
never read again, and nothing after it is left out. A register without positions, or a flow that keeps state, cannot be
continued from there; such a flow is refused before it starts.
"""

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.kernel.errors import InvalidArgument, PreconditionFailed
from penstock.lake.records.sink_batch import SinkBody
from penstock.spark.journals.journal_source import Planner
from penstock.spark.options import has_stream_option, source_options
from penstock.spark.pipelines.ends import JournalEnd
from penstock.spark.pipelines.pipeline import Flow
from penstock.spark.pipelines.plans import keeping_state
from penstock.spark.shared.offsets import journal_positions

__all__ = ["BACKFILL", "FlowStart", "check_row_wise", "heads_of", "only_journal", "start_of"]

BACKFILL = "backfill-"  # how the query of a backfill begins


class FlowStart(msgspec.Struct, frozen=True):
    """Where the stream of a flow begins: an offset for each journal (empty: as its source says), and why."""

    offsets: dict[str, int] = {}
    note: str = ""


def start_of(spark: SparkSession, flow: Flow, register: SinkBody | None) -> FlowStart:
    """Return where a flow without a checkpoint begins; refuse one that cannot continue its sink."""
    if register is None or not register.ends:
        return FlowStart()
    source = only_journal(flow)
    offsets = journal_positions(register.ends)
    stateful = () if source is None else _stateful(spark, flow)
    if source is None or offsets is None or stateful:
        raise _lost(flow, register, stateful)
    by = "a backfill" if register.query.startswith(BACKFILL) else f"query {register.query}"
    done = sum(offsets.values())
    return FlowStart(offsets, f"{flow.name}: {done:,} B were written by {by}; the stream continues after them")


def _lost(flow: Flow, register: SinkBody, stateful: tuple[str, ...]) -> PreconditionFailed:
    why = (
        f"its state ({', '.join(stateful)}) was in the checkpoint" if stateful else "it does not read one journal alone"
    )
    adopt = f"penstock pipeline adopt {flow.sink}"
    return PreconditionFailed(
        f"{flow.sink} has no checkpoint, and its sink is at batch {register.batch} of query {register.query}: "
        f"it cannot continue from there, because {why}",
        next_step=f"put the checkpoint back; or {adopt}, and it reads and writes everything again",
    )


def only_journal(flow: Flow) -> JournalEnd | None:
    """Return the journal of a flow that reads one, and no other stream."""
    first, *others = flow.streams.values()
    return first if isinstance(first, JournalEnd) and not others else None


def check_row_wise(spark: SparkSession, flow: Flow) -> None:
    """Refuse a flow that keeps state: the rows of a batch would not be those of its stream."""
    stateful = _stateful(spark, flow)
    if stateful:
        raise InvalidArgument(
            f"{flow.sink} keeps state ({', '.join(stateful)}): its history goes through the stream",
            next_step=f"penstock pipeline run FILE --flow {flow.name} --once",
        )


def _stateful(spark: SparkSession, flow: Flow) -> tuple[str, ...]:
    found = [name for frame in flow.stream(spark).values() for name in keeping_state(frame)]
    return tuple(dict.fromkeys(found))


def heads_of(source: JournalEnd) -> dict[str, int]:
    """Return how far the journals of a source are written."""
    return {name: head.end for name, head in planner_of(source).now().items()}


def planner_of(source: JournalEnd) -> Planner:
    """Return what asks brokers about the journals of a source."""
    given = {name.lower(): text for name, text in source.options.items()} | {"path": source.name}
    return Planner(source_options(given, is_stream=has_stream_option(given)), StructType())
