"""A whole KeySpace in memory, as a pure machine: what the simulator's KeySpace stores, and a model of what all must do.

Calls happen one after the other, so it is linearizable by construction. Time is handed in. Invariants (`check`): every
revision since the compaction has a change; the newest version of a key is what lives; a lease's keys point back at it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.kernel.errors import Compacted, LeaseExpired, PreconditionFailed
from penstock.kernel.ids import MILLISECOND, Instant, Revision
from penstock.keyspace.core.records import (
    FIRST_REVISION,
    NO_LEASE,
    NO_REVISION,
    Change,
    KeyValue,
    Lease,
    LeaseId,
    LeaseStatus,
    Snapshot,
    Status,
    WatchBatch,
)
from penstock.keyspace.core.transaction import Outcome, Transaction, execute

__all__ = ["Store"]


@dataclass(slots=True)
class _LeaseState:
    ttl_ms: int
    deadline: Instant
    keys: dict[str, None] = field(default_factory=dict)


class Store:
    """Keys, their history and leases. Requests must have passed the checks of `keyspace.limits`."""

    def __init__(self, store_id: str = "memory") -> None:
        self.revision = FIRST_REVISION
        self.compacted = NO_REVISION
        self._store_id = store_id
        self._live: dict[str, KeyValue] = {}
        self._history: list[Change] = []  # by revision, then by key; since the compaction
        self._base: dict[str, KeyValue] = {}  # the state at the compaction
        self._leases: dict[LeaseId, _LeaseState] = {}
        self._last_lease = LeaseId(0)

    # Reading

    def status(self) -> Status:
        return Status(self._store_id, self.revision, self.compacted)

    def get(self, key: str, at: Revision | None = None) -> KeyValue | None:
        return self._live.get(key) if at is None else self._state_at(at).get(key)

    def range(self, prefix: str) -> Iterable[KeyValue]:
        return [entry for key, entry in sorted(self._live.items()) if key.startswith(prefix)]

    def snapshot(self, prefix: str, at: Revision | None = None) -> Snapshot:
        state = self._live if at is None else self._state_at(at)
        entries = tuple(entry for key, entry in sorted(state.items()) if key.startswith(prefix))
        return Snapshot(self.revision if at is None else at, entries)

    def changes(self, prefix: str, after: Revision, upto: Revision | None = None) -> WatchBatch:
        """Return the changes that a watch shows next, after `after` and up to `upto`."""
        if after < self.compacted:
            raise Compacted(
                f"changes from revision {after + 1} on are gone: compacted up to {self.compacted}",
                compacted=self.compacted,
            )
        upto = self.revision if upto is None else upto
        shown = (c for c in self._history if after < c.revision <= upto and c.key.startswith(prefix))
        return WatchBatch(upto, tuple(shown))

    def has_lease(self, lease: LeaseId) -> bool:
        return lease in self._leases

    def leases(self) -> list[LeaseId]:
        return list(self._leases)

    def lease_status(self, lease: LeaseId, now: Instant) -> LeaseStatus:
        state = self._lease(lease)
        remaining_ms = max(0, state.deadline - now) // MILLISECOND
        return LeaseStatus(lease, state.ttl_ms, remaining_ms, tuple(sorted(state.keys)))

    def next_deadline(self) -> Instant | None:
        """Return when the next lease ends unless it is renewed."""
        return min((state.deadline for state in self._leases.values()), default=None)

    def _state_at(self, at: Revision) -> dict[str, KeyValue]:
        if at > self.revision:
            raise PreconditionFailed(f"revision {at} is still to come: the KeySpace is at {self.revision}")
        if at < self.compacted:
            raise Compacted(f"revision {at} is gone: compacted up to {self.compacted}", compacted=self.compacted)
        state = dict(self._base)
        for change in self._history:
            if change.revision <= at:
                _fold(change, state)
        return state

    # Changing

    def transact(self, transaction: Transaction) -> Outcome:
        execution = execute(transaction, self, Revision(self.revision + 1))
        if execution.writes:
            self._apply(execution.writes)
        return Outcome(execution.succeeded, self.revision, execution.results)

    def compact(self, revision: Revision) -> None:
        if revision > self.revision:
            raise PreconditionFailed(f"revision {revision} is still to come: the KeySpace is at {self.revision}")
        if revision > self.compacted:
            self._base = self._state_at(revision)
            self._history = [change for change in self._history if change.revision > revision]
            self.compacted = revision

    def _apply(self, writes: dict[str, KeyValue | None]) -> None:
        self.revision = Revision(self.revision + 1)
        for key, entry in sorted(writes.items()):
            before = self._live.get(key)
            if before is not None and before.lease != NO_LEASE:
                del self._leases[before.lease].keys[key]
            if entry is not None and entry.lease != NO_LEASE:
                self._leases[entry.lease].keys[key] = None
            change = Change(self.revision, key, entry)
            self._history.append(change)
            _fold(change, self._live)

    # Leases

    def grant(self, ttl_ms: int, now: Instant) -> Lease:
        self._last_lease = LeaseId(self._last_lease + 1)
        self._leases[self._last_lease] = _LeaseState(ttl_ms, Instant(now + ttl_ms * MILLISECOND))
        return Lease(self._last_lease, ttl_ms)

    def keep_alive(self, lease: LeaseId, now: Instant) -> Lease:
        self.end_due(now)
        state = self._lease(lease)
        state.deadline = Instant(now + state.ttl_ms * MILLISECOND)
        return Lease(lease, state.ttl_ms)

    def revoke(self, lease: LeaseId) -> None:
        """End a lease; its keys vanish in one revision."""
        keys = self._lease(lease).keys
        if keys:
            self._apply(dict.fromkeys(keys))
        del self._leases[lease]

    def end_due(self, now: Instant) -> list[LeaseId]:
        """End every lease whose time is over."""
        due = [lease for lease, state in self._leases.items() if state.deadline <= now]
        for lease in due:
            self.revoke(lease)
        return due

    def _lease(self, lease: LeaseId) -> _LeaseState:
        state = self._leases.get(lease)
        if state is None:
            raise LeaseExpired(f"lease {lease:x} does not exist any more", lease=lease)
        return state

    def check(self) -> None:
        """Assert every invariant."""
        assert self._state_at(self.revision) == self._live
        revisions = [change.revision for change in self._history]
        assert sorted(set(revisions)) == list(range(max(self.compacted, FIRST_REVISION) + 1, self.revision + 1))
        assert revisions == sorted(revisions)
        for lease, state in self._leases.items():
            assert sorted(state.keys) == sorted(e.key for e in self._live.values() if e.lease == lease)


def _fold(change: Change, state: dict[str, KeyValue]) -> None:
    if change.now is None:
        del state[change.key]
    else:
        state[change.key] = change.now
