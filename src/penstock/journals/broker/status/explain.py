"""Explains a journal's state at one broker, and why an append waits there, in words. Design: style.md, "kind"."""

from collections.abc import Sequence

from penstock.journals.broker.broker_server import BrokerServer
from penstock.journals.broker.replica_host import ReplicaHost
from penstock.journals.core.append_fsm import AppendState
from penstock.journals.core.pipeline import PipelinePhase
from penstock.journals.records.fragment_index import Gap
from penstock.journals.records.protocol import Explained
from penstock.kernel.ids import RequestId

__all__ = ["explain"]

SHOWN_MAX = 8


def explain(server: BrokerServer, host: ReplicaHost) -> Explained:
    """A journal at this broker, as it is right now."""
    appends = host.replica.explain()
    lines = [*_role(server, host), *_content(host), *_appends(appends)]
    return Explained(server.me, host.is_primary, tuple(lines), sum(request is not None for request, _, _ in appends))


def _role(server: BrokerServer, host: ReplicaHost) -> list[str]:
    topology = host.replica.topology
    if topology.spec is None:
        return ["The journal was deleted; its content here is waiting to be dropped."]
    route, desired = topology.route, topology.spec.replication
    lines = []
    if server.me not in route.members:
        lines.append(f"This broker has left the journal's Route ({route}) and stores its remaining content.")
    elif route.primary is None:
        lines.append(f"No broker is the primary: the allocator has to promote one of {route}.")
    elif route.primary == server.me:
        lines.append(f"This broker is the primary of {route}.")
    else:
        lines.append(f"This broker follows {route.primary}.")
    if len(route.members) != desired:
        lines.append(
            f"{len(route.members)} of {desired} brokers serve it: appends are refused until the allocator has found "
            "the others."
        )
    return lines


def _content(host: ReplicaHost) -> list[str]:
    replica, pipeline = host.replica, host.replica.pipeline
    spool = replica.spool
    lines = [f"Readers see everything below {spool.mark}; this replica ends at {spool.end}, in epoch {spool.epoch}."]
    if replica.is_head_lost:
        lines.append(
            f"The journal's head is lost: no broker has what epoch {replica.table.entries[-1].epoch} acknowledged. "
            f"Appends and reads at the end are refused. See: penstock journals reset-head {host.journal}"
        )
    if replica.index_end is None:
        lines.append("The fragment stores were not listed yet: appends wait for that.")
    elif replica.index_end > spool.end:
        lines.append(
            f"The stores hold fragments up to {replica.index_end}, beyond this journal's end: appends are refused. "
            "See: penstock journals reset-head"
        )
    if pipeline is not None and pipeline.phase is PipelinePhase.READY:
        acked = {member: seq for member, seq in pipeline.acked.items() if seq < pipeline.seq}
        if acked:
            behind = ", ".join(f"{member} ({pipeline.seq - seq} behind)" for member, seq in acked.items())
            lines.append(f"The pipeline of epoch {pipeline.epoch} waits for acknowledgements of {behind}.")
        else:
            lines.append(f"The pipeline of epoch {pipeline.epoch} is synchronized, and nothing is in flight.")
    elif pipeline is not None:
        lines.append(f"The pipeline of epoch {pipeline.epoch} is being synchronized: {pipeline.phase.value}.")
    lines += _gaps(host)
    waiting = host.fragments.waiting_bytes
    if waiting:
        lines.append(f"{waiting} bytes of finished fragments wait to be stored.")
    return lines


def _gaps(host: ReplicaHost) -> list[str]:
    """Return the gaps that no fragment covers, once the stores were listed."""
    gaps = host.fragments.gaps() if host.fragments.is_refreshed else []
    lines = [f"No fragment has [{gap.begin}, {gap.end}): {_gap_text(gap)}" for gap in gaps[:SHOWN_MAX]]
    return [*lines, f"{len(gaps) - SHOWN_MAX} more gaps are behind them."] if len(gaps) > SHOWN_MAX else lines


def _gap_text(gap: Gap) -> str:
    if gap.is_jumped:
        return "a reset-head left that out, and readers jump over it."
    return "readers wait there until a broker stores it. If none does, it was removed from the store."


def _appends(appends: Sequence[tuple[RequestId | None, AppendState, str]]) -> list[str]:
    lines = []
    for request, state, waits_for in appends[:SHOWN_MAX]:
        who = "The pulse" if request is None else f"Append {request}"
        lines.append(f"{who} is in {state.value} and waits for {waits_for or 'nothing'}.")
    if len(appends) > SHOWN_MAX:
        lines.append(f"{len(appends) - SHOWN_MAX} more appends wait after them.")
    return lines or ["No append is on its way."]
