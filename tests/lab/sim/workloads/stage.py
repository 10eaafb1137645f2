"""Directed schedules in the simulator's own world: real nodes, real operators, every checker, and a director's hands.

Time runs until something is true; links are cut and processes killed at the very message which matters.
"""

from collections.abc import Callable
from typing import Any

from tests.lab.sim.checkers.scene import Scene

from penstock.kernel.effects import Reply, Requested
from penstock.kernel.ids import MILLISECOND, NO_ENTRY, Epoch, Instant, NodeId, Offset, RequestId
from penstock.quorum.core.config import NodeConfig, OperatorConfig
from penstock.quorum.core.node import Node as Core
from penstock.quorum.core.reading.reads import QuorumRead
from penstock.quorum.records.effects import Append, AppendRequest
from penstock.quorum.records.member import Ensemble
from penstock.quorum.records.messages import FenceRequest
from penstock.quorum.records.metadata import Metadata
from penstock_lab.sim.checkers.history import HistoryRead
from penstock_lab.sim.checkers.hosts import CheckedHost
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.workloads.quorum_machine import Lists
from penstock_lab.sim.workloads.quorum_mutants import MUTANTS, Parts
from penstock_lab.sim.workloads.quorum_operator import MetadataCell, OperatorProgram

CONFIG = NodeConfig(heartbeat_ns=4 * MILLISECOND, snapshot_entries=1 << 40)
PATIENT = OperatorConfig(
    heartbeat_ns=10 * MILLISECOND,
    failure_ns=40 * MILLISECOND,
    lost_ns=10 * MILLISECOND,
    stall_ns=100 * MILLISECOND,
    stall_ns_max=400 * MILLISECOND,
    election_ns=40 * MILLISECOND,
    election_ns_max=320 * MILLISECOND,
    drain_ns=60 * MILLISECOND,
    successor_ns=20 * MILLISECOND,
    reconfiguration_ns=200 * MILLISECOND,
)


def parts_of(mutant: str | None) -> Parts | None:
    if mutant is None:
        return None
    parts = Parts()
    MUTANTS[mutant].apply(parts)
    return parts


class Stage(Scene):
    """Nodes a, b, c (of `names`, those in `voters` are the ensemble) and operators by name."""

    def __init__(self, names: str = "abc", voters: str = "abc", mutant: str | None = None) -> None:
        self.parts = parts_of(mutant)
        super().__init__(names, parts=self.parts, config=CONFIG)
        self.voters = tuple(self[name].member for name in voters)
        self.cell = MetadataCell(Metadata(self.voters), self.checks, self.world.rng)
        self.granted_to: dict[RequestId, Any] = {}
        self.replies: dict[RequestId, Any] = {}
        self._watchers: list[Callable[[NodeId, NodeId, Any], None]] = []
        self.world.on_send = self._on_send
        self.world.after_step = lambda _: self.checks.looked()

    @property
    def ensemble(self) -> Ensemble:
        return getattr(self, "voters", super().ensemble)

    def _on_send(self, source: NodeId, to: NodeId, message: Any) -> None:
        self.checks.sent(source, self.world.nodes[source].run, to, message)
        for watcher in list(self._watchers):
            watcher(source, to, message)

    # time

    def run(self, ms: int) -> None:
        self.world.run(Instant(self.world.now + ms * MILLISECOND))

    def until(self, is_so: Callable[[], bool], ms: int = 500) -> None:
        assert self.world.run(Instant(self.world.now + ms * MILLISECOND), done=is_so), "it never came to that"

    # operators

    def operator(self, name: str = "op1") -> SimNode:
        kind = self.parts.operator if self.parts is not None else Parts().operator
        program = OperatorProgram(NodeId(name), kind, PATIENT, self.cell, self)
        node = self.world.add_node(NodeId(name), program)
        node.boot()
        return node

    def granted(self, reply: Reply) -> None:
        self.granted_to[reply.request] = reply.result

    def ask(self, operator: SimNode, body: Any) -> RequestId:
        request = self.checks.history.next_request()
        operator.deliver(Requested(request, body))
        return request

    def fence(self, epoch: int, names: str) -> None:
        """A fence by hand, for an epoch which is in the metadata."""
        for name in names:
            self.say(name, FenceRequest(Epoch(epoch), self[name].member.incarnation))

    # nodes

    def core(self, name: str) -> Core:
        core = self[name].core
        assert core is not None
        return core

    @property
    def leader(self) -> str:
        assert self.cell.metadata.leader is not None
        return self.cell.metadata.leader.node

    def append(self, name: str, seq: int, **options: Any) -> RequestId:
        """Let a client append on a node; returns the request."""
        attempt = self.attempt(name, seq, level=options.get("level", 0))
        attempt.arrived_at = self.world.now
        request = AppendRequest(attempt.request, attempt.client, seq, attempt.ops, timeout_ns=5_000_000_000, **options)
        self[name].node.deliver(Append((request,)))
        return attempt.request

    def read(self, name: str, key: bytes = b"k") -> HistoryRead:
        """A linearizable read of a key on a node."""
        request = self.checks.history.next_request()
        read = HistoryRead(request, key, True, NO_ENTRY, NodeId(name), self[name].node.run, self.world.now)
        self.checks.history.reads[request] = read
        self[name].node.deliver(Requested(request, QuorumRead()))
        return read

    def served(self, host: CheckedHost, request: RequestId, lists: Lists, applied: Offset) -> None:
        read = self.checks.history.reads[request]
        read.is_answered, read.served_at, read.applied = True, self.world.now, applied
        read.values = tuple(lists.lists.get(read.key, ()))
        self.checks.reads.served(host, read)

    def fate(self, request: RequestId) -> str | None:
        fate = self.checks.history.attempts[request].fate
        return fate.value if fate is not None else None

    # faults

    def part(self, side: str, others: str, *operators: str) -> None:
        """Cut these nodes off from those, and from the operators named."""
        self.world.network.isolate([*map(NodeId, side)], [*map(NodeId, others), *map(NodeId, operators)])

    def heal(self) -> None:
        self.world.network.heal()

    def when_sent(self, kind: type, do: Callable[[NodeId, NodeId, Any], None]) -> None:
        """The first time a message of this kind is sent."""

        def watch(source: NodeId, to: NodeId, message: Any) -> None:
            if isinstance(message, kind):
                self._watchers.remove(watch)
                self.world.after(0, lambda: do(source, to, message))

        self._watchers.append(watch)

    def replied(self, host: CheckedHost, reply: Reply) -> None:
        self.replies[reply.request] = reply.result
