"""The state that every role of a node shares: identity, epoch, log, the known committed part, and the applied part.

Design: quorum-log.md P4, P9, P14. Roles change, this stays. Durable writes go through here, so that one step makes at
most one `Persist`, and a durable effect is followed by durable ones only. What always holds: applied ≤ commit; commit
never falls (I5); applied ≤ `confirmed` unless this node leads (I11).
"""

from collections.abc import Sequence
from typing import Any

from penstock.kernel.effects import Effect, Persist, SaveState, Send, TrimLog, TruncateLog
from penstock.kernel.ids import Lsn, NodeId, Offset
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.log import Log
from penstock.quorum.core.machines.agreement import ReplicaTrust
from penstock.quorum.records.effects import Apply, KeepLost, ReadLog, RestoreSnapshot, TakeSnapshot
from penstock.quorum.records.entry import Entry, Txn
from penstock.quorum.records.state import NodeState, SnapshotMeta

__all__ = ["Replica"]

FOR_APPLY = "apply"


class Replica:
    """The part of a node which outlives its roles, and the effects of the step under way."""

    agreement_class = ReplicaTrust

    def __init__(self, state: NodeState, log: Log, config: NodeConfig) -> None:
        self.config = config
        self.member = state.member
        self.epoch = state.epoch
        self.is_formatted = state.is_formatted
        self.snapshot = state.snapshot
        self.agreement = self.agreement_class(state.divergence)
        self.log = log
        self.saved = state  # the newest state handed to the disk
        self.saving = 0  # how many of those are not durable yet
        self.commit = log.confirmed  # committed, as far as this node itself knows
        self.applied = Offset(0)  # the state machine starts empty: the first effect restores the snapshot
        self.applying = Offset(0)  # handed to the state machine, or being read for it
        self.is_restoring = False
        self.is_taking_snapshot = False
        self.is_writing_snapshot = False  # one received, part by part
        self.checksum = 0  # of the state machine at `applied`
        self._now: list[Effect] = []
        self._durable: list[Effect] = []
        self._new: list[Entry] = []
        self._new_first = Offset(0)

    # effects of this step

    def send(self, to: NodeId, message: Any) -> None:
        self._now.append(Send(to, message))

    def emit(self, *effects: Effect) -> None:
        """Effects which wait for nothing."""
        self._now.extend(effects)

    def take_effects(self) -> list[Effect]:
        """Return all effects of this step: the immediate ones, then the durable ones, in order."""
        effects = self._now
        effects += self._durable
        if self._new:
            effects.append(Persist(Lsn(self._new_first), tuple(self._new)))
            self._new = []
        self._now, self._durable = [], []
        return effects

    # durable writes

    @property
    def is_settled(self) -> bool:
        """Is nothing under way to the disk?"""
        return self.saving == 0 and self.log.durable == self.log.end

    def append(self, entries: Sequence[Entry]) -> Offset:
        first = self.log.append(entries)
        if not self._new:
            self._new_first = first
        self._new += entries
        return first

    def append_transactions(self, txns: Sequence[Txn], size: int, largest: int) -> Offset:
        first = self.log.append_transactions(txns, size, largest)
        if not self._new:
            self._new_first = first
        self._new += txns
        return first

    @property
    def has_new_entries(self) -> bool:
        """Has this step appended something already?"""
        return bool(self._new)

    def save(self) -> None:
        """Write the registers down as they are now."""
        assert not self._new, "entries saved first must be handed over first"
        divergence = self.agreement.divergence
        state = NodeState(self.member, self.epoch, self.log.confirmed, self.snapshot, self.is_formatted, divergence)
        self.saved = state
        self.saving += 1
        self._durable.append(SaveState(state))

    def has_saved(self) -> None:
        """The oldest of the states handed to the disk is durable."""
        self.saving -= 1
        self.trim()

    def truncate(self, to: Offset) -> None:
        """Drop the log behind `to`. A CONFIRM may go with it, so its statement is saved before (P4)."""
        log = self.log
        assert self.is_settled, "a completion under way would be taken for one of the new entries"
        assert to >= log.confirmed, "committed entries are never truncated"
        if log.confirmed > self.saved.confirmed:
            self.save()
        self._now.append(KeepLost(Offset(to + 1), log.end, self.epoch))
        self._durable.append(TruncateLog(Lsn(to)))
        log.truncate(to)

    def install(self, snapshot: SnapshotMeta) -> None:
        """A received snapshot becomes the log's beginning; saving it is the moment it counts (see `recover`)."""
        log = self.log
        assert self.is_settled
        if log.end > log.confirmed:
            self._now.append(KeepLost(Offset(log.confirmed + 1), log.end, self.epoch))
        had_entries = log.end >= log.first
        before_first = Lsn(log.first - 1)
        log.reset(snapshot)
        self.snapshot = snapshot
        self.commit = Offset(max(self.commit, log.confirmed))
        self.save()
        if had_entries:
            self._durable.append(TruncateLog(before_first))
        self.restore()

    # the state machine

    def restore(self) -> None:
        """Put the state machine to the snapshot."""
        self.is_restoring = True
        self.agreement.restarted()
        self.applied = self.applying = self.snapshot.head.offset
        self._now.append(RestoreSnapshot(self.snapshot))

    def restored(self, checksum: int) -> None:
        self.is_restoring = False
        self.checksum = checksum

    def apply(self, limit: Offset) -> None:
        """Hand the state machine more, up to `limit`, unless it is busy."""
        if limit <= self.applying or self.applying > self.applied or self.is_restoring:
            return
        first = Offset(self.applied + 1)
        log = self.log
        if log.is_in_tail(first):
            self.hand_over(first, log.tail_between(first, limit, self.config.apply_bytes_max))
        else:
            self.applying = limit
            self._now.append(ReadLog(FOR_APPLY, first, limit, self.config.apply_bytes_max))

    def hand_over(self, first: Offset, entries: tuple[Entry, ...]) -> None:
        """Let the state machine apply these entries; each of them is committed."""
        assert first == self.applied + 1
        last = Offset(self.applied + len(entries))
        self.applying = last
        self._now.append(Apply(first, entries, self.log.doomed_between(first, last), self.log.take_checks(last)))

    def has_applied(self, upto: Offset, checksum: int) -> None:
        assert upto == self.applying, (upto, self.applying)
        self.applied = upto
        self.checksum = checksum

    # snapshots of our own

    def maybe_take_snapshot(self) -> None:
        """Take a snapshot when enough was applied since the last one, and the state machine is at a point where one may
        be taken (I9).
        """
        due = self.applied - self.snapshot.head.offset >= self.config.snapshot_entries
        if due and not self.is_taking_snapshot and not self.is_restoring and self.applying == self.applied:
            self.take_snapshot()

    def take_snapshot(self) -> None:
        """Write the state machine down, if that is worth it and may be done."""
        is_news = self.applied > self.snapshot.head.offset
        if is_news and self.may_take_snapshot() and self.log.landing(self.applied) == self.applied:
            self.is_taking_snapshot = True
            self._now.append(TakeSnapshot(self.log.snapshot_at(self.applied)))

    def may_take_snapshot(self) -> bool:
        """Is the state right, as far as this replica knows? No member may start from a wrong one."""
        return self.agreement.is_trusted

    def took_snapshot(self, snapshot: SnapshotMeta) -> None:
        """Our newest snapshot is stored: record that durably, and only then drop entries before it."""
        self.is_taking_snapshot = False
        if self.may_take_snapshot() and snapshot.head.offset > self.snapshot.head.offset:
            self.snapshot = snapshot
            self.save()

    def trim(self) -> None:
        """Drop entries well before the durable snapshot. Whatever their CONFIRMs said, the snapshot says more."""
        first = Offset(self.snapshot.head.offset + 1 - self.config.retain_entries)
        if first > self.log.first and not self.saving:
            self._now.append(TrimLog(Lsn(first)))
            self.log.trim(first)
            self.log.forget_before(Offset(first - 1 - self.config.resolve_window))

    # for observers

    def copy(self) -> "Replica":
        """An equal replica which shares nothing that changes."""
        assert not any((self._now, self._durable, self._new)), "between steps only"
        twin = Replica.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.log = self.log.copy()
        twin.agreement = self.agreement.copy()
        twin._now, twin._durable, twin._new = [], [], []
        return twin

    def fingerprint(self) -> tuple[Any, ...]:
        """Return everything that decides the replica's behaviour, as a hashable value."""
        return (
            self.member, self.epoch, self.is_formatted, self.saved, self.saving, self.snapshot, self.commit,
            self.applied, self.applying, self.is_restoring, self.is_taking_snapshot, self.is_writing_snapshot,
            self.agreement.fingerprint(), self.log.fingerprint(),
        )  # fmt: skip

    def check(self) -> None:
        """Assert the invariants of every role."""
        self.log.check()
        assert self.log.confirmed <= self.commit, (self.log.confirmed, self.commit)
        assert self.applied <= self.applying
        assert self.applying <= self.commit
        assert self.log.landing(self.commit) == self.commit, "no commit in a doomed range"
        assert self.snapshot.head.offset >= self.log.base.offset, "trimmed only what a snapshot holds"
        assert self.saved.epoch <= self.epoch or self.saving
