"""How far a pipeline is, without running it: checkpoints, registers of sinks, heads of journals. Starts no Spark."""

from typing import Any

from penstock.kernel.errors import PenstockError
from penstock.spark.pipelines.ends import JournalEnd, LakeSink
from penstock.spark.pipelines.pipeline import Flow, Pipeline
from penstock.spark.pipelines.pipeline_audit import audit_branch
from penstock.spark.pipelines.running.flow_start import heads_of
from penstock.spark.shared.checkpoint import find_state, offset_of
from penstock.spark.shared.checkpoint_files import is_local
from penstock.spark.shared.offsets import journal_positions
from penstock.spark.tables.lake_access import access_from, table_url

__all__ = ["status_of"]


def status_of(pipeline: Pipeline, flow: Flow) -> dict[str, Any]:
    """Return a flow's description. `problem` is the obstacle to its next batch, if there is one."""
    checkpoint = pipeline.checkpoint_of(flow)
    state = find_state(checkpoint)
    shown: dict[str, Any] = {
        "flow": flow.name,
        "sink": flow.sink,
        "query": "" if state is None else state.query,
        "planned": None if state is None else state.planned,
        "committed": None if state is None else state.committed,
        "sink_batch": None,
        "lag_bytes": None,
        "problem": "",
    }
    try:
        register = _register(flow)
        if register is not None:
            shown["sink_batch"] = register["batch"]
            if not is_local(checkpoint):
                shown["query"] = register["query"]  # only Spark can open the checkpoint
            if state is not None and register["query"] != state.query:
                shown["problem"] = f"the sink belongs to another query; penstock pipeline adopt {flow.sink}"
        shown["lag_bytes"] = _lag(flow, checkpoint, register)
    except PenstockError as error:
        shown["problem"] = error.message
    return shown


def _register(flow: Flow) -> dict[str, Any] | None:
    sink = next(iter(flow.sinks.values()))
    if not isinstance(sink, LakeSink):
        return None
    target = table_url(sink.url)
    branch = audit_branch(flow) if flow.is_audited else target.ref
    found = access_from(sink.options).ask("GET", f"{target.api}/branches/{branch}/sinks", patience_s=0.0)
    return next((each for each in found["results"] if each["sink"] == flow.sink), None)


def _lag(flow: Flow, checkpoint: str, register: dict[str, Any] | None) -> int | None:
    """Return how many bytes of the journals follow the last planned batch, or the last that the sink committed."""
    source = next(iter(flow.streams.values()))
    if not isinstance(source, JournalEnd):
        return None
    state = find_state(checkpoint)
    if state is not None and state.planned >= 0:
        read: dict[str, int] = offset_of(checkpoint, state.planned).get("to", {})
    else:
        read = journal_positions(register["ends"]) or {} if register is not None and register.get("ends") else {}
    return sum(max(0, end - read.get(name, 0)) for name, end in heads_of(source).items())
