"""A leader and its followers with one epoch and no elections: just enough around the limbo's queue to make it work.

The full leader is `quorum.leader`; this one has the same queue and the same cursors, and nothing else that could fail.
"""

from collections.abc import Sequence

import msgspec

from penstock.kernel.effects import (
    Effect,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Requested,
    Send,
    SetTimer,
    Stop,
    TimerFired,
)
from penstock.kernel.ids import MILLISECOND, Epoch, Instant, Lsn, NodeId, Offset, RequestId
from penstock.kernel.probes import reached
from penstock.quorum.core.follow_cursor import FollowCursors
from penstock.quorum.core.limbo_queue import LimboEntry, LimboLimits, LimboQueue, LimboState
from penstock.quorum.records.member import Ensemble, Member

__all__ = [
    "Ack",
    "AddEntries",
    "Fence",
    "LimboFollower",
    "LimboLeader",
    "LimboRefusal",
    "LimboRollback",
    "LimboTxn",
    "Offer",
]

EPOCH = Epoch(1)
TICK_NS = 5 * MILLISECOND


class Offer(msgspec.Struct, frozen=True):
    """A client's transaction."""

    size: int
    is_sync: bool
    timeout_ns: int
    rolls_back: bool


class Fence(msgspec.Struct, frozen=True):
    """The leader is deposed."""


class LimboRefusal(Effect, frozen=True):
    """There is no room for these, not even to wait: nothing happened to them."""

    requests: tuple[RequestId, ...]


class LimboTxn(msgspec.Struct, frozen=True):
    """A transaction in the log."""

    request: RequestId
    size: int


class LimboRollback(msgspec.Struct, frozen=True):
    """At offset j: dooms every transaction in [first, j)."""

    first: Offset


class AddEntries(msgspec.Struct, frozen=True):
    """Entries behind offset `previous`."""

    previous: Offset
    entries: tuple[LimboTxn | LimboRollback, ...]


class Ack(msgspec.Struct, frozen=True):
    """The sender holds the log durably up to `durable`; `rejects` says that the entries did not fit after it."""

    durable: Offset
    rejects: bool = False


class LimboFollower:
    """Appends entries that fit, acknowledges durable ones."""

    def __init__(self, me: Member, leader: NodeId, length: int) -> None:
        self.me, self.leader = me, leader
        self.head = Offset(length)
        self.durable = Offset(length)

    def start(self) -> list[Effect]:
        return [Send(self.leader, Ack(self.durable, rejects=True))]

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        match event:
            case Received(_, AddEntries(previous, entries)):
                return self._on_entries(previous, entries)
            case Persisted(lsn):
                self.durable = Offset(lsn)
            case PersistFailed(reason):
                return [Stop(reason)]
            case _:
                pass
        return []

    def _on_entries(self, previous: Offset, entries: tuple[LimboTxn | LimboRollback, ...]) -> list[Effect]:
        if previous > self.head:
            return [Send(self.leader, Ack(self.durable, rejects=True))]
        fresh = entries[self.head - previous :]
        if not fresh:
            return [Send(self.leader, Ack(self.durable))]
        first = Lsn(self.head + 1)
        self.head = Offset(self.head + len(fresh))
        return [Persist(first, fresh), Send(self.leader, Ack(self.head))]

    def check(self) -> None:
        assert self.durable <= self.head


class LimboLeader:
    """Owns the queue and the cursors, and carries out their decisions."""

    def __init__(
        self, me: Member, ensemble: Ensemble, limits: LimboLimits, log: list[LimboTxn | LimboRollback]
    ) -> None:
        self.queue = LimboQueue(limits)
        self.cursors = FollowCursors(EPOCH, me, ensemble)
        self.followers = [member for member in ensemble if member != me]
        for member in self.followers:
            self.cursors.attach(member, Offset(0))
        self.log = log
        self.commit = Offset(0)
        self.is_active = True
        self._waiters: list[LimboEntry] = []  # for their deadlines, in order of arrival
        self._rollbacks: list[tuple[Offset, Offset]] = []

    def start(self, now: Instant) -> list[Effect]:
        return [SetTimer("tick", Instant(now + TICK_NS))]

    @property
    def head(self) -> Offset:
        return Offset(len(self.log))

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        match event:
            case Requested(request, Offer() as offer):
                return self._on_offer(request, offer, now)
            case Requested(_, Fence()):
                return self._on_fence()
            case Received(sender, Ack() as ack):
                return self._on_ack(sender, ack)
            case Persisted(lsn):
                self.on_durable(Offset(lsn))
                return self._progress()
            case TimerFired():
                return self._on_tick(now)
            case PersistFailed(reason):
                return [Stop(reason)]
            case _:
                raise AssertionError(f"unknown event {event}")

    def _on_offer(self, request: RequestId, offer: Offer, now: Instant) -> list[Effect]:
        entry = LimboEntry(
            request,
            None,
            offer.size,
            offer.is_sync,
            deadline=Instant(now + offer.timeout_ns),
            rolls_back=offer.rolls_back,
        )
        if self.queue.offer([entry]):
            return [LimboRefusal((request,))]
        self._waiters.append(entry)
        effects = self._admit()
        if entry.state is LimboState.VOLATILE:
            reached("limbo.volatile")
        return effects

    def _on_fence(self) -> list[Effect]:
        if len(self.queue):
            reached("limbo.frozen_with_waiters")
        self.is_active = False
        return list(self.queue.freeze())

    def _on_ack(self, sender: NodeId, ack: Ack) -> list[Effect]:
        member = next(member for member in self.followers if member.node == sender)
        if not self.cursors.acknowledge(member, EPOCH, ack.durable):
            reached("limbo.stale_ack")
        if ack.rejects:
            self._rewind(member)
        return self._progress()

    def on_durable(self, upto: Offset) -> None:
        self.cursors.durable = upto

    def _progress(self) -> list[Effect]:
        """Commit entries that a majority holds, answer, admit waiting ones, push new ones."""
        if not self.is_active:
            return []
        landing = self.landing(self.cursors.quorum_offset())
        effects: list[Effect] = []
        if landing > self.commit:
            self.commit = landing
            effects += self.queue.commit(landing)
            self._rollbacks = [(first, at) for first, at in self._rollbacks if at > landing]
        effects += self.queue.acknowledge(self.cursors.durable)
        effects += self._admit()
        return effects

    def landing(self, offset: Offset) -> Offset:
        """P2: a commit never lies inside a doomed range."""
        for first, at in reversed(self._rollbacks):
            if first <= offset < at:
                offset = Offset(first - 1)
        return offset

    def _admit(self) -> list[Effect]:
        admitted = self.queue.admit(EPOCH, Offset(self.head + 1), is_active=self.is_active)
        entries = tuple(LimboTxn(entry.request or RequestId(0), entry.size) for entry in admitted)
        return self._append(entries)

    def _append(self, entries: tuple[LimboTxn | LimboRollback, ...]) -> list[Effect]:
        if not entries:
            return self._push()
        first = Lsn(self.head + 1)
        self.log.extend(entries)
        return [*self._push(), Persist(first, entries)]

    def _push(self) -> list[Effect]:
        effects: list[Effect] = []
        for member in self.followers:
            cursor = self.cursors.get(member)
            assert cursor is not None
            if cursor.last_pushed < self.head:
                entries = tuple(self.log[cursor.last_pushed : self.head])
                effects.append(Send(member.node, AddEntries(cursor.last_pushed, entries)))
                self.cursors.pushed(cursor, self.head)
        return effects

    def _rewind(self, member: Member) -> None:
        cursor = self.cursors.get(member)
        assert cursor is not None
        if cursor.last_pushed > cursor.last_confirmed:
            reached("limbo.follower_rewound")
            self.cursors.rewind(cursor, cursor.last_confirmed)

    def _on_tick(self, now: Instant) -> list[Effect]:
        effects: list[Effect] = [SetTimer("tick", Instant(now + TICK_NS))]
        if not self.is_active:
            return effects
        for entry in [entry for entry in self._waiters if entry.deadline <= now]:
            effects += self._time_out(entry, now)
        self._waiters = [entry for entry in self._waiters if entry.deadline > now]
        for member in self.followers:
            self._rewind(member)
        return effects + self._progress() + self._push()

    def _time_out(self, entry: LimboEntry, now: Instant) -> Sequence[Effect]:
        """The first time-out of a sync transaction may doom it and all later ones; the second returns the known
        part.
        """
        may_roll_back = entry.rolls_back and entry.is_sync and entry.state is LimboState.SUBMITTED
        if not may_roll_back or any(first <= entry.offset < at for first, at in self._rollbacks):
            return self.queue.time_out(entry)
        at = Offset(self.head + 1)
        self.queue.doom(entry.offset, at)
        self._rollbacks.append((entry.offset, at))
        entry.rolls_back = False
        entry.deadline = Instant(now + 20 * TICK_NS)
        return self._append((LimboRollback(entry.offset),))

    def check(self) -> None:
        self.queue.check()
        self.cursors.check(self.head)
        assert self.commit <= self.cursors.quorum_offset()
