"""A world with real nodes and all checkers, in a test's hands: no faults, no clients, and operators only by hand."""

from random import Random
from typing import Any

from penstock.kernel.effects import Persist, Received, Reply
from penstock.kernel.ids import EntryId, Epoch, Instant, Lsn, NodeId, Offset, RequestId
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.records.answers import Answers
from penstock.quorum.records.effects import MAJORITY
from penstock.quorum.records.entry import Barrier, ClientId, Entry, Txn
from penstock.quorum.records.member import Ensemble
from penstock.quorum.records.messages import BecomeLeaderRequest, FenceRequest
from penstock.quorum.records.metadata import Metadata
from penstock_lab.sim.checkers.history import HistoryAttempt
from penstock_lab.sim.checkers.hosts import CheckedHost
from penstock_lab.sim.checkers.quorum import QuorumChecks
from penstock_lab.sim.workloads.quorum_host import HostProgram
from penstock_lab.sim.workloads.quorum_machine import Lists, encode_ops
from penstock_lab.sim.workloads.quorum_mutants import Parts
from penstock_lab.sim.world import World

OPERATOR = NodeId("op")


def entry_id(epoch: int, offset: int) -> EntryId:
    return EntryId(Epoch(epoch), Offset(offset))


def txn(epoch: int, seq: int, *, is_sync: bool = True) -> Txn:
    return Txn(Epoch(epoch), ClientId("c"), seq, encode_ops(b"k", "c", seq, seq), is_sync)


def barrier(epoch: int) -> Barrier:
    return Barrier(Epoch(epoch))


class Scene:
    """Three nodes a, b, c, booted and empty; every checker looks on."""

    def __init__(self, names: str = "abc", *, parts: Parts | None = None, config: NodeConfig | None = None) -> None:
        self.world = World(Random(1))
        self.checks = QuorumChecks(config or NodeConfig())
        self.told: list[Answers] = []
        for name in map(NodeId, names):
            program = HostProgram(name, parts or Parts(), config or NodeConfig(), self.checks, self)
            program.check_every = 1 if parts is None else 1 << 30  # a mutant's own check is not asked
            node = self.world.add_node(name, program)
            program.format(node)
            node.boot()
        self.checks.metadata = Metadata(self.ensemble)
        self.world.on_send = lambda source, to, message: self.checks.sent(source, 1, to, message)
        self.settle()

    def __getitem__(self, name: str) -> CheckedHost:
        return self.checks.hosts[NodeId(name)]

    @property
    def ensemble(self) -> Ensemble:
        return tuple(host.member for host in self.checks.hosts.values())

    def settle(self) -> None:
        self.world.run(Instant(self.world.now + 20_000_000))

    # an operator by hand

    def write(self, metadata: Metadata) -> None:
        self.checks.metadata_written((OPERATOR, 1), metadata)

    def say(self, name: str, message: Any) -> None:
        self.world.nodes[NodeId(name)].deliver(Received(OPERATOR, message))

    def elect(self, epoch: int, leader: str, followers: str = "", *, settles: bool = True) -> None:
        """Write the epoch, fence these, let one of them lead, and let everything settle."""
        known = self.checks.metadata
        assert known is not None
        self.write(known.in_election(Epoch(epoch)))
        for name in leader + followers:
            self.say(name, FenceRequest(Epoch(epoch), self[name].member.incarnation, is_forming=True))
        self.settle()
        heads = tuple((self[name].member, self[name].log.head) for name in followers)
        self.say(leader, BecomeLeaderRequest(Epoch(epoch), self[leader].member.incarnation, self.ensemble, heads))
        if settles:
            self.settle()

    # a node by hand

    def hold(self, name: str, *entries: Entry) -> CheckedHost:
        """Put entries on a node's disk, and into its log as the checkers see it, unasked."""
        host = self[name]
        operation = Persist(Lsn(host.log.end + 1), entries)
        host.log.append(int(operation.first), entries)
        host.node.disk._apply(operation)
        return host

    def attempt(self, name: str, seq: int, *, is_sync: bool = True, level: int = MAJORITY) -> HistoryAttempt:
        """A request which has arrived at a node, of which the node knows nothing."""
        ops = encode_ops(b"k", "c", seq, seq)
        request = self.checks.history.next_request()
        attempt = HistoryAttempt(
            request, ClientId("c"), seq, b"k", ops, is_sync, level, False, 5_000_000_000, NodeId(name)
        )
        attempt.run = self[name].node.run
        self.checks.history.attempts[request] = self.checks.history.by_ops[ops] = attempt
        self.checks.answers.arrived(self[name], [attempt])
        return attempt

    # customers

    def booted(self, name: NodeId) -> None:
        pass

    def answered(self, answers: Answers) -> None:
        self.told.append(answers)

    def replied(self, host: CheckedHost, reply: Reply) -> None:
        raise AssertionError(reply)

    def served(self, host: CheckedHost, request: RequestId, lists: Lists, applied: Offset) -> None:
        raise AssertionError(request)
