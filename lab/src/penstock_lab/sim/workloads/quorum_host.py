"""A node of the quorum log as a simulated process: the core on its disk, with its state machine and its snapshots.

It is to the simulator what the node's shell is to the runtime: it runs the effects the world does not know. The state
machine and the files work one job at a time, each taking its time; a crash forgets unfinished jobs.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.kernel.effects import Effect, Event, Reply
from penstock.kernel.ids import EntryId, Incarnation, Instant, NodeId, Offset, RequestId
from penstock.kernel.machine import Machine
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.log import cut_to_bytes
from penstock.quorum.core.machines.pairs import PairLimits
from penstock.quorum.core.node import Node as Core
from penstock.quorum.records.answers import Answers
from penstock.quorum.records.effects import (
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
from penstock.quorum.records.entry import Entry, Txn
from penstock.quorum.records.member import Member
from penstock.quorum.records.state import NodeState, SnapshotMeta
from penstock_lab.sim.checkers.hosts import CheckedHost
from penstock_lab.sim.checkers.quorum import QuorumChecks
from penstock_lab.sim.disk import DiskContent
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.workloads.quorum_machine import Lists
from penstock_lab.sim.workloads.quorum_mutants import Parts

__all__ = ["Customers", "HostProgram", "WatchedNode"]

JOB_NS = 50_000  # a job of the state machine or of a file, at most


class Customers(Protocol):
    """The clients that wait for a node's answers."""

    def booted(self, name: NodeId) -> None: ...

    def answered(self, answers: Answers) -> None: ...

    def replied(self, host: CheckedHost, reply: Reply) -> None: ...

    def served(self, host: CheckedHost, request: RequestId, lists: Lists, applied: Offset) -> None: ...


class WatchedNode:
    """The core, with the checkers looking over its shoulder."""

    __slots__ = ("_checks", "_every", "_steps", "core", "host")

    def __init__(self, core: Core, host: CheckedHost, checks: QuorumChecks, every: int) -> None:
        self.core, self.host = core, host
        self._checks = checks
        self._every = every  # the core's own check costs more than its step: some seeds ask it rarely
        self._steps = 0

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        checks, host = self._checks, self.host
        world_now = host.node.world.now
        effects = self.core.step(event, now)
        checks.stepped(host, event, effects, world_now)
        return effects

    def check(self) -> None:
        self._steps += 1
        if self._steps % self._every == 0:
            self.core.check()


class HostProgram:
    """One node's process and the files of its data folder besides log and registers."""

    def __init__(
        self,
        name: NodeId,
        parts: Parts,
        config: NodeConfig,
        checks: QuorumChecks,
        customers: Customers,
        pairs: PairLimits = PairLimits(),  # noqa: B008 (frozen)
    ) -> None:
        self.name = name
        self.parts = parts
        self.config = config
        self.pairs = pairs
        self.checks = checks
        self.customers = customers
        self.check_every = 1
        self.applier = self.parts.applier(Lists(), limits=self.pairs)
        self.lost: list[Entry] = []  # the lost-and-found
        self.is_wrong = False  # the state machine, in this run of the process
        self._snapshots: dict[EntryId, bytes] = {}
        self._parts: dict[EntryId, bytes] = {}
        self._busy_until = 0
        self._formats = 0

    @property
    def host(self) -> CheckedHost:
        return self.checks.hosts[self.name]

    @property
    def lists(self) -> Lists:
        machine = self.applier.machine
        assert isinstance(machine, Lists)
        return machine

    def damage(self) -> None:
        """Let the state machine go wrong."""
        self.is_wrong = self.host.record.is_damaged = True
        self.lists.damage()

    def format(self, node: SimNode) -> Member:
        """Make an empty data folder: a new member."""
        if not (self._formats and self.parts.keeps_incarnation):
            self._formats += 1
        member = Member(self.name, Incarnation(f"i{self._formats}"))
        node.disk.state = NodeState(member)
        self._snapshots.clear()
        self.lost.clear()
        self.checks.formatted(node, member)
        return member

    def boot(self, node: SimNode, found: DiskContent) -> tuple[Machine, Sequence[Effect]]:
        if node.disk.state is None:
            self.format(node)
        self.applier = self.parts.applier(Lists(), limits=self.pairs)
        self._parts.clear()
        self.is_wrong = False
        self._busy_until = 0
        core, effects = self.parts.node.recover(node.disk.state, Offset(found.first), found.records, self.config)
        self.checks.booted(self.host, core, effects)
        self.customers.booted(self.name)
        return WatchedNode(core, self.host, self.checks, self.check_every), effects

    # effects

    def perform(self, node: SimNode, effect: Effect) -> None:
        match effect:
            case Answers():
                self.customers.answered(effect)
            case Reply():
                self.customers.replied(self.host, effect)
            case Apply():
                self._job(node, lambda: self.applier.apply(effect))
            case Serve(requests):
                self._job(node, lambda: self._serve(requests))
            case RestoreSnapshot(snapshot):
                self._job(node, lambda: self._restore(snapshot))
            case ReadLog():
                self._job(node, lambda: self._read_log(node, effect))
            case KeepLost(first, last):
                disk = node.disk
                entries = disk.records[max(0, first - disk.first) : last + 1 - disk.first]
                self.lost += [entry for entry in entries if isinstance(entry, Txn)]
            case _:
                self._perform_snapshot(node, effect)

    def _perform_snapshot(self, node: SimNode, effect: Effect) -> None:
        match effect:
            case TakeSnapshot(snapshot):
                assert self.applier.applied == snapshot.head.offset, "a snapshot is of the state machine as it is"
                data = self.applier.snapshot()
                if self.is_wrong:
                    self.checks.wrong_snapshots.add(data)
                self._job(node, lambda: self._store(node, snapshot, data))
            case ReadSnapshot():
                self._job(node, lambda: self._read_snapshot(effect))
            case WriteSnapshot():
                self._job(node, lambda: self._write_snapshot(node, effect))
            case _:
                raise AssertionError(f"unknown effect {effect}")

    def _job(self, node: SimNode, do: Callable[[], Event | None]) -> None:
        """Do it when everything before is done; tell the core of it."""
        world, run = node.world, node.run
        self._busy_until = max(self._busy_until, world.now) + 1 + int(world.rng.random() * JOB_NS)

        def done() -> None:
            event = do()
            if event is not None:
                node.deliver(event)

        def ready() -> None:
            if node.run == run:
                node.when_awake(done)

        world.at(Instant(self._busy_until), ready)

    def _serve(self, requests: tuple[RequestId, ...]) -> None:
        for request in requests:
            self.customers.served(self.host, request, self.lists, self.applier.applied)

    def _restore(self, snapshot: SnapshotMeta) -> SnapshotRestored:
        data = self._snapshots[snapshot.head] if snapshot.head.offset else b""
        self.applier.restore(data)
        self.is_wrong = data in self.checks.wrong_snapshots
        self.host.record.is_damaged = self.host.record.is_damaged or self.is_wrong
        assert self.applier.applied == snapshot.head.offset
        return SnapshotRestored(snapshot.head, self.applier.checksum)

    def _read_log(self, node: SimNode, effect: ReadLog) -> LogRead:
        disk, first = node.disk, effect.first
        entries = disk.records[first - disk.first : effect.last + 1 - disk.first] if first >= disk.first else []
        return LogRead(effect.purpose, first, cut_to_bytes(entries, effect.bytes_max))

    def _store(self, node: SimNode, snapshot: SnapshotMeta, data: bytes) -> SnapshotTaken:
        self._keep(node, snapshot, data)
        return SnapshotTaken(snapshot)

    def _keep(self, node: SimNode, snapshot: SnapshotMeta, data: bytes) -> None:
        """Store a snapshot; those older than the one the registers name may go."""
        saved = node.disk.state.snapshot.head
        self._snapshots = {head: each for head, each in self._snapshots.items() if head >= saved}
        self._snapshots[snapshot.head] = data

    def _read_snapshot(self, effect: ReadSnapshot) -> SnapshotRead:
        data, position = self._snapshots.get(effect.snapshot), effect.position
        part = None if data is None else data[position : position + effect.bytes_max]
        is_last = data is not None and position + effect.bytes_max >= len(data)
        return SnapshotRead(effect.member, effect.snapshot, position, part, is_last)

    def _write_snapshot(self, node: SimNode, effect: WriteSnapshot) -> SnapshotWritten:
        head, position = effect.snapshot.head, effect.position
        before = self._parts.get(head, b"")
        assert position <= len(before), f"{self.name} writes a snapshot from {position} on, and has {len(before)} bytes"
        stored = self._parts[head] = before[:position] + effect.data
        if effect.is_last:
            self._keep(node, effect.snapshot, stored)
            del self._parts[head]  # the parts are the snapshot now: nothing can be written after it
        return SnapshotWritten(effect.snapshot, position + len(effect.data), effect.is_last)
