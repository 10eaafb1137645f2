"""Clients of the quorum workload: they append, retry, ask what became of it, and read; each in its own kind of hurry.

They reach every node in spite of the network, so that a deposed leader keeps its customers. Messages and answers may be
late or lost, and now and then a client takes its leader for lost. The shipped client's own rules (`Sending`) decide
about copies, ack levels and the meaning of answers; the checkers judge the end of each transaction. Some users repeat a
transaction of unknown fate under its number.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.kernel.effects import Reply, Requested
from penstock.kernel.ids import MILLISECOND, NO_ENTRY, EntryId, NodeId, Offset, RequestId
from penstock.kernel.probes import reached
from penstock.quorum.client.sending import Answer, Next, Sending
from penstock.quorum.core.reading.reads import QuorumRead
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.effects import ALL, APPLIED, MAJORITY, Append, AppendRequest
from penstock.quorum.records.entry import ClientId
from penstock.quorum.records.resolution import Resolution, Resolve
from penstock_lab.sim.checkers.history import HistoryAttempt, HistoryRead, ResolveOp, UserAppend
from penstock_lab.sim.checkers.hosts import CheckedHost
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
    Fate.EXPIRED: "quorum.told_expired",
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
    highest_sent: int = 0
    at: NodeId = NOBODY  # where its stream goes
    arrives_at: int = 0  # the last message on it
    home: NodeId | None = None  # the node that served it last: the leader, as far as it knows
    tokens: list[EntryId] = field(default_factory=list)  # of its acknowledged async transactions
    tries: dict[int, int] = field(default_factory=dict)  # by seq


class Clients:
    """All clients of a world, and their requests."""

    def __init__(
        self, world: World, checks: QuorumChecks, cell: MetadataCell, settings: Settings, kind: type[Sending]
    ) -> None:
        self.kind = kind
        self.world = world
        self.checks = checks
        self.history = checks.history
        self.cell = cell
        self.settings = settings
        self.is_open = True
        self.lose = 0.0  # the chance that a request or an answer is lost
        self.clients = [Client(ClientId(f"c{number}")) for number in range(settings.clients)]
        self._waiting: dict[RequestId, tuple[Client, UserAppend]] = {}

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
            self._send(client, [self._new(client) for _ in range(rng.choice((1, 1, 1, 4)))], self._node(client))
        self._soon(client)

    def _new(self, client: Client) -> UserAppend:
        rng = self.world.rng
        client.seq += 1
        is_sync = rng.random() >= self.settings.async_share
        level = rng.choice((MAJORITY, MAJORITY, MAJORITY, APPLIED, ALL, 3)) if is_sync else MAJORITY
        return self._ask_for(client, client.seq, is_sync=is_sync, level=level)

    def _node(self, client: Client) -> NodeId:
        """Return the node that served it last, or the leader in the metadata, or any node."""
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

    def _ask_for(self, client: Client, seq: int, *, is_sync: bool, level: int, is_repeat: bool = False) -> UserAppend:
        """A user calls `append`."""
        rng, settings = self.world.rng, self.settings
        rolls_back = is_sync and rng.random() < settings.rollback_share
        sending = self.kind(seq, b"", is_sync, level, rolls_back, is_repeat)
        deadline = self.world.now + int(settings.timeout_ns * rng.choice((1, 1, 3)))
        asked = UserAppend(client.name, seq, sending, deadline)
        client.tries[seq] = client.tries.get(seq, 0) + 1
        self.history.asked.append(asked)
        grace_ns = settings.node.rollback_grace_ns + 10 * MILLISECOND
        self.world.after(deadline - self.world.now + grace_ns, lambda: self._give_up(client, asked))
        return asked

    def _send(self, client: Client, asked: list[UserAppend], name: NodeId) -> None:
        """Send a copy of each in one message. A client without an answer may take its leader for lost."""
        world, rng = self.world, self.world.rng
        if name != client.at:
            self._move(client, name)
        attempts = [self._copy(client, one, name) for one in asked]
        if self.lose and rng.random() < 0.3:
            world.after(int((2 + 15 * rng.random()) * MILLISECOND), lambda: self._lost(client, attempts))
        client.arrives_at = max(client.arrives_at, world.now + 1 + int(rng.random() * MILLISECOND))  # in order
        if not (self.lose and rng.random() < self.lose):
            world.after(client.arrives_at - world.now, lambda: self._arrive(attempts, name))

    def _move(self, client: Client, name: NodeId) -> None:
        """Open the next stream: every unanswered transaction of the stream before is sent again."""
        client.at, client.arrives_at = name, self.world.now
        left = [request for request, (owner, _) in self._waiting.items() if owner is client]
        for request in left:
            _, asked = self._waiting.pop(request)
            if not asked.is_over:
                self._again(client, asked)

    def _copy(self, client: Client, asked: UserAppend, name: NodeId) -> HistoryAttempt:
        history, sending = self.history, asked.sending
        request = history.next_request()
        key = b"%s%d" % (b"s" if sending.is_sync else b"a", asked.seq % 2)
        ops = encode_ops(key, client.name, asked.seq, request)
        copy = sending.copy(request, (asked.deadline - self.world.now) // MILLISECOND, client.highest_sent)
        client.highest_sent = max(client.highest_sent, copy.seq)
        attempt = HistoryAttempt(
            request, client.name, asked.seq, key, ops, copy.is_sync, copy.level, copy.rolls_back,
            copy.timeout_ms * MILLISECOND, name, copy.is_repeat,
        )  # fmt: skip
        history.attempts[request] = history.by_ops[ops] = attempt
        asked.last = request
        self._waiting[request] = client, asked
        return attempt

    def _arrive(self, attempts: list[HistoryAttempt], name: NodeId) -> None:
        node, host = self.world.nodes[name], self.checks.hosts[name]
        requests = [
            AppendRequest(
                one.request, one.client, one.seq, one.ops, one.is_sync, one.level, one.timeout_ns, one.rolls_back,
                one.is_repeat,
            )
            for one in attempts
        ]  # fmt: skip

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

    def _heard(self, attempt: HistoryAttempt) -> None:
        client, asked = self._waiting.pop(attempt.request, (None, None))
        if client is None or asked is None or asked.is_over:
            return  # it came too late
        if attempt.fate in (Fate.COMMITTED, Fate.ACKNOWLEDGED):
            client.home = attempt.node
        elif attempt.fate is Fate.NOT_LEADER and client.home == attempt.node:
            client.home = None
        assert attempt.fate is not None
        answer = Answer(attempt.fate, attempt.entry, attempt.result, attempt.cause)
        step = asked.sending.heard(answer, is_late=self.world.now >= asked.deadline)
        if step is Next.AGAIN:
            self._again(client, asked)
            return
        self._end(client, asked, attempt.fate if step is Next.TOLD else Fate.INDETERMINATE)
        if attempt.fate is Fate.ACKNOWLEDGED:
            client.tokens.append(attempt.entry)
            self._read_own(client)
        elif attempt.fate is Fate.INDETERMINATE:
            self._resolve(attempt.entry)

    def _lost(self, client: Client, attempts: list[HistoryAttempt]) -> None:
        """The stream broke, or so it seems: whatever was sent on it and is not answered is sent again."""
        client.home = None
        for attempt in attempts:
            _, asked = self._waiting.pop(attempt.request, (None, None))
            if asked is not None and not asked.is_over and self.world.now < asked.deadline:
                reached("quorum.answer_lost")
                self._again(client, asked)

    def _again(self, client: Client, asked: UserAppend) -> None:
        def send() -> None:
            if not asked.is_over:
                self._send(client, [asked], self._node(client))

        self.world.after(int(self.world.rng.random() * 5 * MILLISECOND), send)

    def _give_up(self, client: Client, asked: UserAppend) -> None:
        """No answer in time: it may have taken effect, or may still; or no copy of it is anywhere."""
        if not asked.is_over:
            self._waiting.pop(asked.last, None)
            client.home = None
            self._end(client, asked, Fate.INDETERMINATE if asked.sending.may_be_written else Fate.NOT_LEADER)

    def _end(self, client: Client, asked: UserAppend, fate: Fate) -> None:
        """Tell the user, who may repeat a transaction of unknown fate."""
        asked.fate = fate
        self.checks.answers.told(asked)
        rng = self.world.rng
        may_repeat = self.is_open and client.tries[asked.seq] < RETRIES_MAX
        if fate is Fate.INDETERMINATE and may_repeat and rng.random() < 0.5:
            sending = asked.sending
            again = self._ask_for(client, asked.seq, is_sync=sending.is_sync, level=sending.level, is_repeat=True)
            self._again(client, again)

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
        """Wait, on any node, for the last acknowledged transaction."""
        if self.world.rng.random() < 0.3:
            node = self.world.rng.choice(list(self.checks.hosts))
            self._send_read(b"a0", node, client.tokens[-1], is_linearizable=False)

    def _send_read(self, key: bytes, name: NodeId, after: EntryId, *, is_linearizable: bool) -> None:
        request = self.history.next_request()
        read = self.history.reads[request] = HistoryRead(request, key, is_linearizable, after, name)
        node = self.world.nodes[name]

        def arrive() -> None:
            read.run, read.arrived_at = node.run, self.world.now
            node.deliver(Requested(request, QuorumRead(is_linearizable, after)))

        self._carry(lambda: node.when_awake(arrive), delay_ns=300_000 if after == NO_ENTRY else MILLISECOND)

    def served(self, host: CheckedHost, request: RequestId, lists: Lists, applied: Offset) -> None:
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

    def replied(self, host: CheckedHost, reply: Reply) -> None:
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

    def _check_once(self, read: HistoryRead) -> None:
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
