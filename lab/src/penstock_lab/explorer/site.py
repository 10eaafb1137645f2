"""A node on its disk, as one value: its next step depends on nothing else.

A `ModelNode` runs the core and its effects. Actions without a durable effect are done at once (applying, reading back,
snapshots), so that a step ends when nothing but messages and writes is under way. Two sites with equal fingerprints
behave alike; that is what makes a search finite, and it is itself checked (see `Sites.audit`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from penstock.kernel.effects import (
    CancelTimer,
    Effect,
    Event,
    Persist,
    SaveState,
    Send,
    SetTimer,
    Stop,
    TrimLog,
    TruncateLog,
)
from penstock.kernel.ids import Instant, NodeId, Offset
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.node import Node
from penstock.quorum.records.answers import Answers
from penstock.quorum.records.effects import (
    Applied,
    Apply,
    KeepLost,
    LogRead,
    ReadLog,
    ReadSnapshot,
    RestoreSnapshot,
    SnapshotRead,
    SnapshotRestored,
    SnapshotTaken,
    SnapshotWritten,
    TakeSnapshot,
    WriteSnapshot,
)
from penstock.quorum.records.messages import AddEntryRequest
from penstock_lab.explorer.disk_image import DiskImage
from penstock_lab.explorer.facts import Applies, Crashes, Fact, Lands
from penstock_lab.explorer.observer import Observer

__all__ = ["ModelNode", "SiteStep"]

SNAPSHOT = b"snapshot"  # the state machine is not explored: its input is compared with the committed log instead


class SiteStep(msgspec.Struct, frozen=True):
    """What one step led to."""

    site: "ModelNode"
    sent: tuple[tuple[NodeId, Any], ...]
    facts: tuple[Fact, ...]


class SiteConfig(msgspec.Struct, frozen=True):
    """How nodes are run."""

    node_class: type[Node] = Node
    node: NodeConfig = NodeConfig()
    is_checked: bool = True  # call the core's own `check` after every step
    shows_commit: bool = (
        False  # leave the commit index in AddEntry: no node acts by it, so without it more states are equal
    )


class ModelNode:
    """A node and its disk. Never changed once a step is over."""

    __slots__ = ("clock", "config", "disk", "is_slow", "node")

    def __init__(self, config: SiteConfig, node: Node, disk: DiskImage, clock: Instant, *, is_slow: bool) -> None:
        self.config = config
        self.node = node
        self.disk = disk
        self.clock = clock  # only timers move it
        self.is_slow = is_slow  # its writes are finished by a step of their own, not at once

    @property
    def name(self) -> NodeId:
        return self.disk.state.member.node

    def fingerprint(self) -> tuple[Any, ...]:
        """Return all that decides the site's next step, as a hashable value. Time counts from its own clock."""
        waiters: tuple[Any, ...] = ()
        if self.node.leader is not None:
            waiters = tuple(
                (entry.request, entry.rolls_back, entry.deadline - self.clock)
                for entry in self.node.leader.limbo.waiters()
            )
        told = self.node.follower.leader_commit if self.node.follower is not None else 0
        return (self.node.fingerprint(), self.disk, waiters, told)

    def deadlines(self) -> list[Instant]:
        """When waiters of this leader give up, each time once."""
        leader = self.node.leader
        if leader is None:
            return []
        return sorted({entry.deadline for entry in leader.limbo.waiters() if entry.request is not None})

    # steps

    @classmethod
    def boot(cls, config: SiteConfig, disk: DiskImage, *, is_slow: bool) -> SiteStep:
        """A process starts on this disk."""
        node, effects = config.node_class.recover(disk.state, Offset(disk.first), disk.records, config.node)
        run = _Run(cls(config, node, disk, Instant(0), is_slow=is_slow))
        run.observer.booted()
        run.perform(effects)
        return run.to_the_end([])

    def step(self, event: Event, now: Instant | None = None) -> SiteStep:
        run = _Run(self._twin(self.clock if now is None else now))
        return run.to_the_end([event])

    def finish_write(self) -> SiteStep:
        """The oldest write under way is durable."""
        run = _Run(self._twin(self.clock))
        return run.to_the_end(run.finish_write())

    def crash(self, survivor: DiskImage) -> SiteStep:
        """The process ends, and another one starts with the rest."""
        booted = ModelNode.boot(self.config, survivor, is_slow=self.is_slow)
        return SiteStep(booted.site, booted.sent, (Crashes(self.name), *booted.facts))

    def _twin(self, clock: Instant) -> "ModelNode":
        return ModelNode(self.config, self.node.copy(), self.disk, clock, is_slow=self.is_slow)


class _Run:
    """One step on its way: a site which may still change."""

    def __init__(self, site: ModelNode) -> None:
        self.site = site
        self.observer = Observer(site.node, site.disk)
        self.sent: list[tuple[NodeId, Any]] = []
        self.events: list[Event] = []

    def to_the_end(self, events: Sequence[Event]) -> SiteStep:
        site = self.site
        self.events += events
        while self.events or (site.disk.pending and not site.is_slow):
            if self.events:
                self._step(self.events.pop(0))
            else:
                self.events += self.finish_write()
        return SiteStep(site, tuple(self.sent), tuple(self.observer.facts))

    def finish_write(self) -> list[Event]:
        self.site.disk, event = self.site.disk.finish_one()
        self.observer.disk = self.site.disk
        return [event] if event is not None else []

    def _step(self, event: Event) -> None:
        site = self.site
        effects = site.node.step(event, site.clock)
        if site.config.is_checked:
            site.node.check()
        self.observer.stepped(effects)
        self.perform(effects)

    def perform(self, effects: Sequence[Effect]) -> None:
        is_behind_durable = False
        for effect in effects:
            if isinstance(effect, Persist | TruncateLog | SaveState):
                is_behind_durable = True
                self.site.disk = self.site.disk.put(effect)
            else:
                assert not is_behind_durable, f"{effect} stands behind a durable effect"
                self.events += self._perform_one(effect)
        self.observer.wrote(self.site.disk)

    def _perform_one(self, effect: Effect) -> Iterator[Event]:
        site = self.site
        match effect:
            case Send(to, message):
                self.sent.append((to, self._as_sent(message)))
            case TrimLog(lsn):
                site.disk = site.disk.trim(int(lsn))
            case Apply(first, entries, doomed):
                self.observer.facts.append(Applies(site.name, first, entries, doomed))
                yield Applied(Offset(first + len(entries) - 1), (None,) * len(entries))
            case TakeSnapshot(snapshot):
                self.observer.facts.append(Lands(site.name, snapshot.head.offset))
                site.disk = site.disk.keep_snapshot(snapshot.head, SNAPSHOT)
                yield SnapshotTaken(snapshot)
            case RestoreSnapshot(snapshot):
                yield SnapshotRestored(snapshot.head)
            case Stop(reason):
                raise AssertionError(f"I5: {site.name} stops: {reason}")
            case Answers() | SetTimer() | CancelTimer() | KeepLost():
                pass  # answers are seen by the observer; which timers may fire follows from the node's state
            case _:
                yield from self._read(effect)

    def _read(self, effect: Effect) -> Iterator[Event]:
        disk = self.site.disk
        match effect:
            case ReadLog(purpose, first, last, _):
                entries = disk.records[first - disk.first : last + 1 - disk.first] if first >= disk.first else ()
                yield LogRead(purpose, first, entries)
            case ReadSnapshot(to, head, position, _):
                yield SnapshotRead(to, head, position, disk.snapshot_at(head), is_last=True)
            case WriteSnapshot(snapshot, position, data, is_last):
                self.site.disk = disk.keep_snapshot(snapshot.head, data)
                yield SnapshotWritten(snapshot, position + len(data), is_last)
            case _:
                raise AssertionError(f"the explorer does not know {effect}")

    def _as_sent(self, message: Any) -> Any:
        if isinstance(message, AddEntryRequest) and not self.site.config.shows_commit:
            return msgspec.structs.replace(message, commit=Offset(0))
        return message
