"""Clients of the quorum workload: they append, retry, ask what became of it, and read; each in its own kind of hurry.

They reach every node whatever the network does, so that a deposed leader keeps its customers; what they say and what
they hear may be late or lost. A retry repeats (client, seq) and asks for the result, as a client must which does not
know what became of its first try (quorum-log.md P10).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.kernel.effects import Reply, Requested
from penstock.kernel.ids import MILLISECOND, NO_ENTRY, EntryId, NodeId, Offset, RequestId
from penstock.kernel.probes import reached
from penstock.quorum.core.reads import Read
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.effects import ALL, APPLIED, MAJORITY, Append, AppendRequest
from penstock.quorum.records.entry import ClientId
from penstock.quorum.records.resolution import Resolution, Resolve
from penstock_lab.sim.checkers.history import Attempt, ReadOp, ResolveOp
from penstock_lab.sim.checkers.hosts import Host
from penstock_lab.sim.checkers.quorum import QuorumChecks
from penstock_lab.sim.workloads.quorum_machine import Lists, encode_ops
from penstock_lab.sim.workloads.quorum_modes import Settings
from penstock_lab.sim.workloads.quorum_operator import MetadataCell
from penstock_lab.sim.world import World

__all__ = ["Clients"]

RETRIES_MAX = 4
NOBODY = NodeId("")  # not sent yet

TOLD = {
    Fate.COMMITTED: "quorum.told_committed",
    Fate.ACKNOWLEDGED: "quorum.told_acknowledged",
    Fate.COMMITTED_BELOW_LEVEL: "quorum.told_below_level",
    Fate.ABORTED: "quorum.told_aborted",
    Fate.INDETERMINATE: "quorum.told_indeterminate",
    Fate.NOT_LEADER: "quorum.told_not_leader",
    Fate.OVERLOADED: "quorum.told_overloaded",
    Fate.INVALID: "quorum.told_invalid",
}
RESOLVED = {
    Resolution.COMMITTED: "quorum.resolved_committed",
    Resolution.ABORTED: "quorum.resolved_aborted",
    Resolution.PENDING: "quorum.resolved_pending",
    Resolution.NOT_LEADER: "quorum.resolved_not_leader",
    Resolution.EXPIRED: "quorum.resolved_expired",
}


@dataclass(slots=True)
class Client:
    """One session."""

    name: ClientId
    seq: int = 0
    home: NodeId | None = None  # who served it last: the leader, as far as it knows
    tokens: list[EntryId] = field(default_factory=list)  # of its acknowledged async transactions
    tries: dict[int, int] = field(default_factory=dict)  # by seq


class Clients:
    """All clients of a world, and what they have done."""

    def __init__(self, world: World, checks: QuorumChecks, cell: MetadataCell, settings: Settings) -> None:
        self.world = world
        self.checks = checks
        self.history = checks.history
        self.cell = cell
        self.settings = settings
        self.is_open = True
        self.lose = 0.0  # the chance that a request or an answer is lost
        self.clients = [Client(ClientId(f"c{number}")) for number in range(settings.clients)]
        self._waiting: dict[RequestId, Client] = {}

    def start(self) -> None:
        for client in self.clients:
            self._soon(client)

    def _soon(self, client: Client) -> None:
        self.world.after(1 + int(self.world.rng.random() * 2 * self.settings.think_ns), lambda: self._act(client))

    def _act(self, client: Client) -> None:
        if not self.is_open:
            return
        rng, settings = self.world.rng, self.settings
        if self.cell.metadata.leader is None and rng.random() < 0.7:
            pass  # it knows of no leader, and waits
        elif rng.random() < settings.read_share:
            self._read(client)
        else:
            self._send([self._new_attempt(client) for _ in range(rng.choice((1, 1, 1, 4)))], self._node(client))
        self._soon(client)

    def _new_attempt(self, client: Client) -> Attempt:
        rng = self.world.rng
        client.seq += 1
        is_sync = rng.random() >= self.settings.async_share
        level = rng.choice((MAJORITY, MAJORITY, MAJORITY, APPLIED, ALL, 3)) if is_sync else MAJORITY
        return self._attempt(client, client.seq, is_sync=is_sync, level=level)

    def _node(self, client: Client) -> NodeId:
        """Who served it last, or the leader as the metadata says, or anybody."""
        leader, rng = self.cell.metadata.leader, self.world.rng
        if client.home is not None and rng.random() < 0.8:
            return client.home
        if leader is not None and rng.random() < 0.85:
            return leader.node
        return rng.choice(list(self.checks.hosts))

    def _carry(self, do: Callable[[], None], *, delay_ns: int = MILLISECOND) -> None:
        """To a node or back, late or never."""
        rng = self.world.rng
        if not (self.lose and rng.random() < self.lose):
            self.world.after(1 + int(rng.random() * delay_ns), do)

    # appends

    def _attempt(self, client: Client, seq: int, *, is_sync: bool, level: int) -> Attempt:
        settings, history = self.settings, self.history
        request = history.next_request()
        key = b"%s%d" % (b"s" if is_sync else b"a", seq % 2)
        rolls_back = is_sync and self.world.rng.random() < settings.rollback_share
        ops = encode_ops(key, client.name, seq, request)
        attempt = Attempt(
            request, client.name, seq, key, ops, is_sync, level, rolls_back, settings.timeout_ns, NOBODY
        )  # fmt: skip
        history.attempts[request] = history.by_ops[ops] = attempt
        client.tries[seq] = client.tries.get(seq, 0) + 1
        self._waiting[request] = client
        return attempt

    def _send(self, attempts: list[Attempt], name: NodeId) -> None:
        """One message with all of them; a client which hears nothing gives up on each."""
        settings = self.settings
        patience = settings.timeout_ns + settings.node.rollback_grace_ns + 10 * MILLISECOND
        for attempt in attempts:
            attempt.node = name
            self.world.after(patience, lambda attempt=attempt: self._give_up(attempt))  # type: ignore[misc]
        self._carry(lambda: self._arrive(attempts, name))

    def _arrive(self, attempts: list[Attempt], name: NodeId) -> None:
        node, host = self.world.nodes[name], self.checks.hosts[name]
        requests = [
            AppendRequest(
                one.request, one.client, one.seq, one.ops, one.is_sync, one.level, one.timeout_ns, one.rolls_back
            )
            for one in attempts
        ]

        def arrive() -> None:
            for attempt in attempts:
                attempt.run, attempt.arrived_at = node.run, self.world.now
            self.checks.answers.arrived(host, attempts)
            node.deliver(Append(requests))

        node.when_awake(arrive)

    def answered(self, answers: Answers) -> None:
        for request in answers.requests:
            attempt = self.history.attempts[request]
            reached(TOLD[answers.fate])
            self._carry(lambda attempt=attempt: self._heard(attempt))  # type: ignore[misc]

    def _heard(self, attempt: Attempt) -> None:
        client = self._waiting.pop(attempt.request, None)
        if client is None:
            return  # it came too late
        if attempt.fate in (Fate.COMMITTED, Fate.ACKNOWLEDGED):
            client.home = attempt.node
        elif attempt.fate is Fate.NOT_LEADER and client.home == attempt.node:
            client.home = None
        match attempt.fate:
            case Fate.ACKNOWLEDGED:
                client.tokens.append(attempt.entry)
                self._read_own(client)
            case Fate.INDETERMINATE:
                self._resolve(attempt.entry)
                self._retry(client, attempt)
            case Fate.NOT_LEADER | Fate.OVERLOADED:
                self._retry(client, attempt)
            case _:
                pass

    def _give_up(self, attempt: Attempt) -> None:
        """No answer: it may have taken effect, or may still."""
        client = self._waiting.pop(attempt.request, None)
        if client is not None:
            reached("quorum.answer_lost")
            client.home = None
            self._retry(client, attempt)

    def _retry(self, client: Client, attempt: Attempt) -> None:
        rng = self.world.rng
        if self.is_open and client.tries[attempt.seq] < RETRIES_MAX and rng.random() < 0.5:
            level = APPLIED if attempt.is_sync else MAJORITY
            again = self._attempt(client, attempt.seq, is_sync=attempt.is_sync, level=level)
            self.world.after(int(rng.random() * 5 * MILLISECOND), lambda: self._send([again], self._node(client)))

    # resolve

    def _resolve(self, entry: EntryId) -> None:
        """Ask several nodes, now and later."""
        rng = self.world.rng
        for node in rng.sample(list(self.checks.hosts), 2):
            self.world.after(int(rng.random() * 30 * MILLISECOND), lambda node=node: self._ask(node, entry))  # type: ignore[misc]

    def _ask(self, name: NodeId, entry: EntryId) -> None:
        request = self.history.next_request()
        self.history.resolves[request] = ResolveOp(request, entry, name)
        self.world.nodes[name].deliver(Requested(request, Resolve(entry)))

    # reads

    def _read(self, client: Client) -> None:
        is_linearizable = self.world.rng.random() < 0.7
        key = b"%s%d" % (b"s", self.world.rng.randint(0, 1))
        node = self._node(client) if is_linearizable else self.world.rng.choice(list(self.checks.hosts))
        self._send_read(key, node, NO_ENTRY, is_linearizable=is_linearizable)

    def booted(self, name: NodeId) -> None:
        """Readers come back as soon as a node does."""
        if self.is_open and self.world.rng.random() < 0.5:
            self._send_read(b"s0", name, NO_ENTRY, is_linearizable=False)

    def _read_own(self, client: Client) -> None:
        """Wait, on any node, for what was just acknowledged."""
        if self.world.rng.random() < 0.3:
            node = self.world.rng.choice(list(self.checks.hosts))
            self._send_read(b"a0", node, client.tokens[-1], is_linearizable=False)

    def _send_read(self, key: bytes, name: NodeId, after: EntryId, *, is_linearizable: bool) -> None:
        request = self.history.next_request()
        read = self.history.reads[request] = ReadOp(request, key, is_linearizable, after, name)
        node = self.world.nodes[name]

        def arrive() -> None:
            read.run, read.arrived_at = node.run, self.world.now
            node.deliver(Requested(request, Read(is_linearizable, after)))

        self._carry(lambda: node.when_awake(arrive), delay_ns=300_000 if after == NO_ENTRY else MILLISECOND)

    def served(self, host: Host, request: RequestId, lists: Lists, applied: Offset) -> None:
        read = self.history.reads[request]
        self._check_once(read)
        read.served_at, read.applied = self.world.now, applied
        read.values = tuple(lists.lists.get(read.key, ()))
        if read.is_linearizable:
            reached("quorum.linearizable_read")
        elif read.after != NO_ENTRY:
            reached("quorum.read_own_write")
        else:
            reached("quorum.local_read")
        self.checks.reads.served(host, read)

    def replied(self, host: Host, reply: Reply) -> None:
        """A resolution, or the refusal of a read."""
        read = self.history.reads.get(reply.request)
        if read is not None:
            self._check_once(read)
            return
        question = self.history.resolves[reply.request]
        assert question.answer is None, "a question is answered once"
        assert isinstance(reply.result, Resolution)
        question.answer = reply.result
        reached(RESOLVED[reply.result])
        self.checks.resolutions.answered(host, question.entry, reply.result)

    def _check_once(self, read: ReadOp) -> None:
        assert not read.is_answered, f"{read} is answered twice"
        read.is_answered = True

    # the end

    def has_waiters(self) -> bool:
        """Does anybody wait for a process which still runs?"""
        nodes = self.world.nodes
        return any(
            each.fate is None and each.run and each.run == nodes[each.node].run and nodes[each.node].is_up
            for each in self.history.attempts.values()
        ) or any(
            not each.is_answered and each.run and each.run == nodes[each.node].run and nodes[each.node].is_up
            for each in self.history.reads.values()
        )
