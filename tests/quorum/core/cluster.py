"""A small cluster in memory whose every message, write and crash is in the test's hands.

Packets wait in `net` until the test delivers them; durable effects wait on a host's disk while `holds_disk` is set, and
are done at once otherwise. After every step the `Judge` looks at the whole cluster.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from zlib import crc32

import msgspec
from tests.quorum.core.judge import Judge

from penstock.kernel.effects import (
    CancelTimer,
    Effect,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Reply,
    Requested,
    SaveState,
    Send,
    SetTimer,
    StateSaved,
    Stop,
    TimerFired,
    TrimLog,
    TruncateLog,
)
from penstock.kernel.ids import EntryId, Epoch, Incarnation, Instant, Lsn, NodeId, Offset, RequestId, Revision
from penstock.quorum.core.config import NodeConfig, OperatorConfig
from penstock.quorum.core.log import cut_to_bytes
from penstock.quorum.core.machines.state_machine import Applier
from penstock.quorum.core.node import Node
from penstock.quorum.core.operator import Operator
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.effects import (
    Append,
    AppendRequest,
    Apply,
    KeepLost,
    LogRead,
    ReadLog,
    ReadSnapshot,
    RestoreSnapshot,
    Serve,
    SnapshotRead,
    SnapshotRestored,
    SnapshotTaken,
    SnapshotWritten,
    TakeSnapshot,
    WriteSnapshot,
)
from penstock.quorum.records.entry import ClientId, Entry
from penstock.quorum.records.member import Ensemble, Member
from penstock.quorum.records.messages import (
    AddFollowerRequest,
    BecomeLeaderRequest,
    FenceRequest,
    FenceResponse,
    Request,
)
from penstock.quorum.records.metadata import Metadata, MetadataRead, MetadataWritten, ReadMetadata, WriteMetadata
from penstock.quorum.records.state import NodeState

OPERATOR = NodeId("op")
CONFIG = NodeConfig(snapshot_entries=1 << 40)  # snapshots when a test wants one


def member(name: str, incarnation: str = "i1") -> Member:
    return Member(NodeId(name), Incarnation(incarnation))


def members(names: str) -> Ensemble:
    return tuple(map(member, names))


def entry_id(epoch: int, offset: int) -> EntryId:
    return EntryId(Epoch(epoch), Offset(offset))


class Values:
    """The state machine of these tests: a list to which every transaction adds its bytes."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.sum = 0

    def apply(self, entry: EntryId, ops: bytes) -> int:
        self.values.append(ops)
        self.sum = crc32(ops, self.sum)
        return len(self.values)

    def checksum(self) -> int:
        return self.sum

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode((self.values, self.sum))

    def restore(self, data: bytes) -> None:
        self.values, self.sum = msgspec.msgpack.decode(data, type=tuple[list[bytes], int]) if data else ([], 0)


@dataclass(slots=True)
class Packet:
    """A message on its way."""

    sender: NodeId
    to: NodeId
    message: Any


@dataclass(slots=True)
class Disk:
    """What a host would find after a crash."""

    state: NodeState
    first: int = 1
    records: list[Entry] = field(default_factory=list)
    snapshots: dict[EntryId, bytes] = field(default_factory=dict)
    pending: deque[Effect] = field(default_factory=deque)

    @property
    def last(self) -> int:
        return self.first + len(self.records) - 1

    def id_at(self, offset: int) -> EntryId | None:
        if self.first <= offset <= self.last:
            return EntryId(self.records[offset - self.first].epoch, Offset(offset))
        return self.state.snapshot.head if self.state.snapshot.head.offset == offset else None

    def do(self, effect: Effect) -> Event | None:
        match effect:
            case Persist(first, records):
                if not self.records:
                    self.first = first
                assert first == self.last + 1, f"a hole: {first} behind {self.last}"
                self.records.extend(records)
                return Persisted(Lsn(self.last))
            case TruncateLog(lsn):
                assert self.first - 1 <= lsn <= self.last, (self.first, lsn, self.last)
                del self.records[lsn - self.first + 1 :]
                return None
            case SaveState(state):
                self.state = state
                return StateSaved()
            case _:
                raise AssertionError(effect)


class Host:
    """A process: a node on its disk."""

    def __init__(self, cluster: "Cluster", me: Member, *, is_formatted: bool) -> None:
        self.cluster = cluster
        self.name = me.node
        self.disk = Disk(NodeState(me, is_formatted=is_formatted))
        self.node: Node | None = None
        self.applier = Applier(Values())
        self.timers: dict[str, Instant] = {}
        self.holds_disk = False
        self.holds_snapshots = False
        self.run = 0
        self.stopped: str | None = None
        self.lost: list[Entry] = []
        self.parts: dict[EntryId, bytes] = {}
        self._events: deque[Event] = deque()

    @property
    def up(self) -> Node:
        assert self.node is not None, f"{self.name} is down"
        return self.node

    @property
    def values(self) -> list[bytes]:
        return cast("Values", self.applier.machine).values

    @property
    def ids(self) -> list[str]:
        """The ids of the log, durable or not, as text."""
        log = self.up.log
        return [str(log.id_at(Offset(offset))) for offset in range(log.first, log.end + 1)]

    def boot(self) -> None:
        self.run += 1
        self.stopped = None
        self.timers.clear()
        self.applier = Applier(Values())
        disk, cluster = self.disk, self.cluster
        self.node, effects = cluster.node_class.recover(disk.state, Offset(disk.first), disk.records, cluster.config)
        cluster.judge.booted(self)
        self._run(effects)
        self._drain()

    def crash(self, survivors: int = 0) -> None:
        """Lose what is not durable, but for the first so many writes, and everything in memory."""
        for effect in list(self.disk.pending)[:survivors]:
            self.disk.do(effect)
        self.disk.pending.clear()
        self._events.clear()
        self.node = None

    def step(self, event: Event) -> None:
        self._events.append(event)
        self._drain()

    def sync(self, count: int | None = None) -> None:
        """Let the disk finish its oldest writes: all, or so many."""
        left = len(self.disk.pending) if count is None else count
        while left and self.disk.pending:
            left -= 1
            event = self.disk.do(self.disk.pending.popleft())
            if event is not None:
                self.step(event)

    def fail_disk(self) -> None:
        self.step(PersistFailed("test"))

    def fire(self, name: str) -> None:
        """Let a timer fire, however early."""
        del self.timers[name]
        self.step(TimerFired(name))

    def _drain(self) -> None:
        while self._events and self.node is not None:
            event = self._events.popleft()
            effects = self.node.step(event, self.cluster.now)
            self.cluster.judge.stepped(self, effects)
            self.cluster.stepped(self.name, event, effects)
            self._run(effects)
            if not self._events and not self.holds_disk and self.disk.pending:
                done = self.disk.do(self.disk.pending.popleft())
                if done is not None:
                    self._events.append(done)
        while self.node is not None and not self._events and not self.holds_disk and self.disk.pending:
            done = self.disk.do(self.disk.pending.popleft())
            if done is not None:
                self.step(done)

    def _run(self, effects: Sequence[Effect]) -> None:
        is_behind_durable = False
        for effect in effects:
            if isinstance(effect, Persist | TruncateLog | SaveState):
                is_behind_durable = True
                self.disk.pending.append(effect)
            else:
                assert not is_behind_durable, f"{effect} stands behind a durable effect"
                self._run_one(effect)

    def _run_one(self, effect: Effect) -> None:
        cluster = self.cluster
        match effect:
            case Send(to, message):
                cluster.net.append(Packet(self.name, to, message))
            case SetTimer(name, at):
                self.timers[name] = at
            case CancelTimer(name):
                self.timers.pop(name, None)
            case TrimLog(lsn):
                if lsn > self.disk.first:
                    del self.disk.records[: lsn - self.disk.first]
                    self.disk.first = lsn
            case Stop(reason):
                cluster.judge.stopped(reason)
                self.crash()
                self.stopped = reason
            case Answers() | Reply() | Serve():
                self._answer(effect)
            case _:
                self._run_storage(effect)

    def _answer(self, effect: Answers | Reply | Serve) -> None:
        match effect:
            case Answers():
                self.cluster.answered(effect)
            case Reply(request, result):
                self.cluster.replies[request] = result
            case Serve(requests, _):
                for request in requests:
                    self.cluster.replies[request] = list(self.values)

    def _run_storage(self, effect: Effect) -> None:
        disk = self.disk
        match effect:
            case Apply():
                self._events.append(self.applier.apply(effect))
            case KeepLost(first, last, _):
                self.lost += disk.records[first - disk.first : last + 1 - disk.first]
            case ReadLog(purpose, first, last, bytes_max):
                entries = disk.records[first - disk.first : last + 1 - disk.first] if first >= disk.first else []
                self._events.append(LogRead(purpose, first, cut_to_bytes(entries, bytes_max)))
            case TakeSnapshot(snapshot):
                disk.snapshots[snapshot.head] = self.applier.snapshot()
                self._events.append(SnapshotTaken(snapshot))
            case ReadSnapshot(to, head, position, bytes_max):
                data = disk.snapshots.get(head)
                part = None if data is None else data[position : position + bytes_max]
                is_last = data is not None and position + bytes_max >= len(data)
                self._events.append(SnapshotRead(to, head, position, part, is_last))
            case WriteSnapshot(snapshot, position, data, is_last):
                stored = self.parts.get(snapshot.head, b"")[:position] + data
                self.parts[snapshot.head] = stored
                if is_last:
                    disk.snapshots[snapshot.head] = stored
                self._events.append(SnapshotWritten(snapshot, position + len(data), is_last))
            case RestoreSnapshot(snapshot):
                self.applier.restore(disk.snapshots.get(snapshot.head, b""))
                self._events.append(SnapshotRestored(snapshot.head, self.applier.checksum))
            case _:
                raise AssertionError(f"a host does not know {effect}")


class KeySpace:
    """The shard's metadata with compare-and-set, and everything that was ever written."""

    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.revision = Revision(1)
        self.history = [metadata]

    def write(self, metadata: Metadata, revision: Revision) -> bool:
        if revision != self.revision:
            return False
        assert metadata.epoch >= self.metadata.epoch, "I27: the epoch never falls"
        self.metadata, self.revision = metadata, Revision(self.revision + 1)
        self.history.append(metadata)
        return True


class OperatorHost:
    """A process with an operator in it."""

    def __init__(self, cluster: "Cluster", name: str, operator: Operator) -> None:
        self.cluster = cluster
        self.name = NodeId(name)
        self.operator: Operator | None = operator
        self.timers: dict[str, Instant] = {}
        self.holds_keyspace = False
        self.pending: deque[Effect] = deque()

    def boot(self) -> None:
        assert self.operator is not None
        self._run(self.operator.begin(self.cluster.now))

    def crash(self) -> None:
        self.operator = None
        self.pending.clear()

    def step(self, event: Event) -> None:
        if self.operator is not None:
            effects = self.operator.step(event, self.cluster.now)
            self.operator.check()
            self.cluster.stepped(self.name, event, effects)
            self._run(effects)

    def tick(self) -> None:
        self.step(TimerFired("tick"))

    def _run(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    self.cluster.net.append(Packet(self.name, to, message))
                case SetTimer(name, at):
                    self.timers[name] = at
                case Reply(request, result):
                    self.cluster.replies[request] = result
                case _:
                    self.pending.append(effect)
        if not self.holds_keyspace:
            self.sync()

    def sync(self) -> None:
        """Let the KeySpace answer."""
        while self.pending and self.operator is not None:
            effect, keyspace = self.pending.popleft(), self.cluster.keyspace
            match effect:
                case ReadMetadata():
                    self.step(MetadataRead(keyspace.metadata, keyspace.revision))
                case WriteMetadata(metadata, revision):
                    is_written = keyspace.write(metadata, revision)
                    self.step(MetadataWritten(is_written, keyspace.revision))
                case _:
                    raise AssertionError(f"an operator host does not know {effect}")


class Cluster:
    """Hosts, the network between them, and the judge over all."""

    def __init__(
        self,
        names: str,
        *,
        spares: str = "",
        node_class: type[Node] = Node,
        operator_class: type[Operator] = Operator,
        config: NodeConfig = CONFIG,
        ensemble: str = "",
        wiped_as: str = "i2",
    ) -> None:
        self.now = Instant(0)
        self.node_class = node_class
        self.operator_class = operator_class
        self.config = config
        self.judge = Judge()
        self.net: list[Packet] = []
        self.inbox: list[tuple[NodeId, Any]] = []  # what came for the operator in the test's hands
        self.replies: dict[int, Any] = {}
        self.fates: dict[int, Fate] = {}
        self.results: dict[int, Any] = {}
        self.told: list[tuple[Fate, int]] = []  # in the order clients heard
        self.ids: dict[int, EntryId] = {}
        self.operators: dict[NodeId, OperatorHost] = {}
        self.ensemble = members(ensemble or names)
        self.wiped_as = wiped_as  # the incarnation of a node which lost its disk
        self.keyspace = KeySpace(Metadata(self.ensemble))
        self.hosts = {NodeId(name): Host(self, member(name), is_formatted=name in names) for name in names + spares}
        self._next_request = 0
        self._cut: set[tuple[str, str]] = set()
        for host in self.hosts.values():
            host.boot()

    def __getitem__(self, name: str) -> Host:
        return self.hosts[NodeId(name)]

    def stepped(self, name: NodeId, event: Event, effects: Sequence[Effect]) -> None:
        """For those who want to tell the story."""

    # the network

    def deliver(self, chooses: Callable[[Packet], bool] = lambda _: True, *, count: int = 1 << 30) -> int:
        """Deliver packets which are on their way now, in order; returns how many."""
        chosen = [packet for packet in self.net if chooses(packet)][:count]
        for packet in chosen:
            self.net.remove(packet)
            self.hand_over(packet)
        return len(chosen)

    def hand_over(self, packet: Packet) -> None:
        """Deliver a packet, also one which is not in the net: a duplicate, or one from the past."""
        if (packet.sender, packet.to) in self._cut:
            return
        if packet.to in self.hosts:
            if self.hosts[packet.to].node is not None:
                self.hosts[packet.to].step(Received(packet.sender, packet.message))
        elif packet.to in self.operators:
            self.operators[packet.to].step(Received(packet.sender, packet.message))
        else:
            self.inbox.append((packet.sender, packet.message))

    def settle(self, chooses: Callable[[Packet], bool] = lambda _: True) -> None:
        """Deliver everything (that is chosen) until nothing is on its way."""
        for _ in range(1000):
            if not self.deliver(chooses):
                return
        raise AssertionError("the cluster does not come to rest")

    def between(self, *names: str) -> Callable[[Packet], bool]:
        """Chooses packets among these, the operators included."""
        allowed = {*names, OPERATOR, *self.operators}
        return lambda packet: packet.sender in allowed and packet.to in allowed

    def drop(self, chooses: Callable[[Packet], bool] = lambda _: True) -> list[Packet]:
        """Lose packets; they are returned, to come late or twice."""
        lost = [packet for packet in self.net if chooses(packet)]
        self.net = [packet for packet in self.net if not chooses(packet)]
        return lost

    def cut(self, *names: str) -> None:
        """Part these from everybody else (operators, too)."""
        others = {*self.hosts, *self.operators, OPERATOR} - set(names)
        self._cut |= {pair for name in names for other in others for pair in ((name, other), (other, name))}

    def heal(self) -> None:
        self._cut.clear()

    # the operator by hand

    def send(self, name: str, message: Request) -> None:
        self.net.append(Packet(OPERATOR, NodeId(name), message))

    def fence(self, epoch: int, names: str, *, is_forming: bool = False) -> dict[str, EntryId]:
        """Fence these nodes; returns their heads."""
        for name in names:
            self.send(name, FenceRequest(Epoch(epoch), self[name].disk.state.member.incarnation, is_forming))
        self.deliver(lambda packet: isinstance(packet.message, FenceRequest | FenceResponse))
        self.deliver(lambda packet: isinstance(packet.message, FenceResponse))
        return {
            sender: message.head
            for sender, message in self.inbox
            if isinstance(message, FenceResponse) and message.epoch == epoch
        }

    def elect(self, epoch: int, leader: str, followers: str = "", *, ensemble: Ensemble | None = None) -> None:
        """Fence a quorum and let one of it lead; nothing beyond is delivered."""
        heads = self.fence(epoch, leader + followers)
        self.become_leader(epoch, leader, {name: heads[name] for name in followers}, ensemble=ensemble)

    def become_leader(
        self, epoch: int, leader: str, heads: dict[str, EntryId], *, ensemble: Ensemble | None = None
    ) -> None:
        known = tuple((self[name].disk.state.member, head) for name, head in heads.items())
        incarnation = self[leader].disk.state.member.incarnation
        message = BecomeLeaderRequest(Epoch(epoch), incarnation, ensemble or self.ensemble, known)
        self.send(leader, message)
        self.deliver(lambda packet: isinstance(packet.message, BecomeLeaderRequest))

    def add_follower(self, epoch: int, leader: str, name: str, head: EntryId | None) -> None:
        incarnation = self[leader].disk.state.member.incarnation
        follower = self[name].disk.state.member
        self.send(leader, AddFollowerRequest(Epoch(epoch), incarnation, follower, head))
        self.deliver(lambda packet: isinstance(packet.message, AddFollowerRequest))

    # operators as processes

    def start_operator(self, name: str = "op1", config: OperatorConfig | None = None) -> OperatorHost:
        operator = self.operator_class(config)
        host = self.operators[NodeId(name)] = OperatorHost(self, name, operator)
        host.boot()
        return host

    def metadata(self) -> Metadata:
        return self.keyspace.metadata

    # clients

    def append(self, name: str, *values: str, **options: Any) -> list[int]:
        """Append transactions on a node; returns the requests' ids."""
        requests = []
        for value in values:
            self._next_request += 1
            request = RequestId(self._next_request)
            client, seq = options.get("client", "c"), options.get("seq", self._next_request)
            settings = {key: each for key, each in options.items() if key not in ("client", "seq")}
            requests.append(AppendRequest(request, ClientId(client), seq, value.encode(), **settings))
        self[name].step(Append(tuple(requests)))
        return [each.request for each in requests]

    def ask(self, name: str, body: Any) -> int:
        self._next_request += 1
        self[name].step(Requested(RequestId(self._next_request), body))
        return self._next_request

    def ask_operator(self, name: str, body: Any) -> int:
        self._next_request += 1
        self.operators[NodeId(name)].step(Requested(RequestId(self._next_request), body))
        return self._next_request

    def answered(self, answers: Answers) -> None:
        results: Iterable[Any] = answers.results or (None,) * len(answers.requests)
        for request, offset, result in zip(answers.requests, answers.offsets, results, strict=True):
            assert request not in self.fates, "each exactly once"
            self.fates[request] = answers.fate
            self.results[request] = result
            self.ids[request] = EntryId(answers.epoch, offset)
            self.told.append((answers.fate, request))

    # time

    def pass_time(self, duration_ns: int) -> None:
        """Let time pass; timers fire only when a test lets them."""
        self.now = Instant(self.now + duration_ns)

    def heartbeat(self, name: str) -> None:
        self[name].fire("heartbeat")

    # processes

    def crash(self, *names: str, survivors: int = 0) -> None:
        for name in names:
            self[name].crash(survivors)

    def restart(self, *names: str) -> None:
        for name in names:
            if self[name].node is not None:
                self[name].crash()
            self[name].boot()

    def wipe(self, name: str) -> None:
        """The node comes back with an empty disk, as another member."""
        self[name].crash()
        self.hosts[NodeId(name)] = Host(self, member(name, self.wiped_as), is_formatted=False)
        self[name].boot()
