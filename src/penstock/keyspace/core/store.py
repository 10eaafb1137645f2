"""A whole KeySpace in memory, as a pure machine: what the simulator's KeySpace stores, and a model of what all must do.

Calls happen one after the other, so it is linearizable by construction. Time is handed in. Invariants (`check`): every
revision since the compaction has a change; the newest version of a key is what lives; a lease's keys point back at it.
`dump` and `load` carry the whole state, in lists that share only values that never change.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import xor
from zlib import crc32

import msgspec

from penstock.kernel.errors import Compacted, LeaseExpired, PreconditionFailed
from penstock.kernel.ids import MILLISECOND, Instant, Revision
from penstock.keyspace.core.records import (
    FIRST_REVISION,
    NO_LEASE,
    NO_REVISION,
    KeyChange,
    KeySnapshot,
    KeySpaceStatus,
    KeyValue,
    Lease,
    LeaseId,
    LeaseStatus,
    WatchBatch,
)
from penstock.keyspace.core.transaction import Execution, Transaction, TransactOutcome, execute

__all__ = ["KeyStore", "LeaseRow", "StoreState"]

ENTRY_BYTES = 64  # of an entry without its key and value, roughly
LeaseRow = tuple[LeaseId, int, Instant]  # its id, its ttl in ms, and when it ends


class StoreState(msgspec.Struct, frozen=True, array_like=True):
    """The whole state of a store, at one moment."""

    store_id: str
    revision: Revision
    compacted: Revision
    last_lease: LeaseId
    base: list[KeyValue]  # as of the compaction, sorted by key
    history: list[KeyChange]  # since then
    leases: list[LeaseRow]


@dataclass(slots=True)
class _LeaseState:
    ttl_ms: int
    deadline: Instant
    keys: dict[str, None] = field(default_factory=dict)


class KeyStore:
    """Keys, their history and leases. Requests must have passed the checks of `keyspace.limits`."""

    def __init__(self, store_id: str = "memory") -> None:
        self.revision = FIRST_REVISION
        self.compacted = NO_REVISION
        self._store_id = store_id
        self._live: dict[str, KeyValue] = {}
        self._keys: list[str] = []  # of what lives, sorted
        self._history: list[KeyChange] = []  # by revision, then by key; since the compaction
        self._base: dict[str, KeyValue] = {}  # the state at the compaction
        self._leases: dict[LeaseId, _LeaseState] = {}
        self._last_lease = LeaseId(0)
        self.live_bytes = 0  # of keys and values that live
        self.history_bytes = 0  # of the values in the history
        self.checksum = 0  # over what lives: the same for the same keys and values

    # Reading

    @property
    def store_id(self) -> str:
        return self._store_id

    def found(self, store_id: str) -> None:
        """Give a store its identity, unless it has one."""
        self._store_id = self._store_id or store_id

    def status(self) -> KeySpaceStatus:
        return KeySpaceStatus(self._store_id, self.revision, self.compacted)

    def get(self, key: str, at: Revision | None = None) -> KeyValue | None:
        return self._live.get(key) if at is None else self._state_at(at).get(key)

    def range(self, prefix: str) -> Iterable[KeyValue]:
        return [self._live[key] for key in self._keys_under(prefix)]

    def _keys_under(self, prefix: str, after: str = "") -> Iterator[str]:
        """Return the live keys with a prefix that come after a key, in order."""
        keys = self._keys
        first = bisect_right(keys, after) if after >= prefix and after else bisect_left(keys, prefix)
        for index in range(first, len(keys)):
            if not keys[index].startswith(prefix):
                return
            yield keys[index]

    def page(self, prefix: str, after: str, at: Revision | None, bytes_max: int) -> tuple[KeySnapshot, bool]:
        """Return the entries under a prefix whose keys come after `after`: as many as fit, and whether these are all.

        At least one entry is returned if there is one.
        """
        state: dict[str, KeyValue] = self._live if at is None else self._state_at(at)
        live = self._keys_under(prefix, after)
        keys = live if at is None else (key for key in sorted(state) if key.startswith(prefix) and key > after)
        entries: list[KeyValue] = []
        size = 0
        for key in keys:
            size += len(key) + len(state[key].value) + ENTRY_BYTES
            if entries and size > bytes_max:
                return KeySnapshot(self.revision if at is None else at, tuple(entries)), False
            entries.append(state[key])
        return KeySnapshot(self.revision if at is None else at, tuple(entries)), True

    def snapshot(self, prefix: str, at: Revision | None = None) -> KeySnapshot:
        if at is None:
            return KeySnapshot(self.revision, tuple(self.range(prefix)))
        state = self._state_at(at)
        return KeySnapshot(at, tuple(entry for key, entry in sorted(state.items()) if key.startswith(prefix)))

    def changes(self, prefix: str, after: Revision, upto: Revision | None = None) -> WatchBatch:
        """Return the changes that a watch shows next, after `after` and up to `upto`."""
        if after < self.compacted:
            raise Compacted(
                f"changes from revision {after + 1} on are gone: compacted up to {self.compacted}",
                compacted=self.compacted,
            )
        upto = self.revision if upto is None else upto
        first = bisect_right(self._history, after, key=_revision_of)
        last = bisect_right(self._history, upto, lo=first, key=_revision_of)
        return WatchBatch(upto, tuple([c for c in self._history[first:last] if c.key.startswith(prefix)]))

    def batch(self, prefix: str, after: Revision, bytes_max: int) -> WatchBatch:
        """Return the next changes of a watch: whole revisions, one at least, and no more when they are too large."""
        upto, size = self.revision, 0
        for index in range(bisect_right(self._history, after, key=_revision_of), len(self._history)):
            change = self._history[index]
            if size > bytes_max and change.revision > self._history[index - 1].revision:
                upto = self._history[index - 1].revision
                break
            size += _size(change.now) + ENTRY_BYTES if change.key.startswith(prefix) else 0
        return self.changes(prefix, after, max(upto, after))

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
        if at == self.revision:
            return self._live
        state = dict(self._base)
        for change in self._history:
            if change.revision <= at:
                _fold(change, state)
        return state

    # Changing

    def transact(self, transaction: Transaction) -> TransactOutcome:
        return self.accept(self.plan(transaction))

    def plan(self, transaction: Transaction) -> Execution:
        """Return what a transaction would do now."""
        return execute(transaction, self, Revision(self.revision + 1))

    def accept(self, planned: Execution) -> TransactOutcome:
        """Apply a plan. The store must not have changed since."""
        if planned.writes:
            self._apply(planned.writes)
        return TransactOutcome(planned.succeeded, self.revision, planned.results)

    def compact(self, revision: Revision) -> None:
        if revision > self.revision:
            raise PreconditionFailed(f"revision {revision} is still to come: the KeySpace is at {self.revision}")
        if revision > self.compacted:
            cut = bisect_right(self._history, revision, key=_revision_of)
            for change in self._history[:cut]:
                _fold(change, self._base)
                self.history_bytes -= _size(change.now)
            del self._history[:cut]
            self.compacted = revision

    def _apply(self, writes: dict[str, KeyValue | None]) -> None:
        self.revision = Revision(self.revision + 1)
        for key, entry in sorted(writes.items()):
            before = self._live.get(key)
            if before is not None and before.lease != NO_LEASE:
                del self._leases[before.lease].keys[key]
            if entry is not None and entry.lease != NO_LEASE:
                self._leases[entry.lease].keys[key] = None
            change = KeyChange(self.revision, key, entry)
            self._history.append(change)
            self.history_bytes += _size(entry)
            self._move(change)

    def _move(self, change: KeyChange) -> None:
        """Take a change into what lives."""
        key = change.key
        before = self._live.get(key)
        if before is None:
            insort(self._keys, key)
        elif change.now is None:
            del self._keys[bisect_left(self._keys, key)]
        self.live_bytes += _size(change.now) - _size(before)
        self.checksum ^= _mix(before) ^ _mix(change.now)
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

    # The whole state

    def dump(self) -> StoreState:
        """Return the state as it is now. Nothing that is done to the store later shows in it."""
        leases = [(lease, state.ttl_ms, state.deadline) for lease, state in self._leases.items()]
        return StoreState(
            self._store_id,
            self.revision,
            self.compacted,
            self._last_lease,
            list(self._base.values()),
            list(self._history),
            leases,
        )

    @classmethod
    def load(cls, state: StoreState) -> "KeyStore":
        """Return a store with this state."""
        store = cls(state.store_id)
        store._leases = {lease: _LeaseState(ttl_ms, deadline) for lease, ttl_ms, deadline in state.leases}
        store.revision, store.compacted, store._last_lease = state.revision, state.compacted, state.last_lease
        store._base = {entry.key: entry for entry in state.base}
        store._history = list(state.history)
        store._live = dict(store._base)
        for change in store._history:
            _fold(change, store._live)
        store._keys = sorted(store._live)
        for key in store._keys:
            entry = store._live[key]
            store.live_bytes += _size(entry)
            store.checksum ^= _mix(entry)
            if entry.lease != NO_LEASE:
                store._leases[entry.lease].keys[key] = None
        store.history_bytes = sum(_size(change.now) for change in store._history)
        return store

    def check(self) -> None:
        """Assert every invariant."""
        assert self._keys == sorted(self._live)
        assert self.checksum == reduce(xor, map(_mix, self._live.values()), 0)
        assert self.live_bytes == sum(map(_size, self._live.values()))
        assert self.history_bytes == sum(_size(change.now) for change in self._history)
        folded = dict(self._base)
        for change in self._history:
            _fold(change, folded)
        assert folded == self._live
        revisions = [change.revision for change in self._history]
        assert sorted(set(revisions)) == list(range(max(self.compacted, FIRST_REVISION) + 1, self.revision + 1))
        assert revisions == sorted(revisions)
        for lease, state in self._leases.items():
            assert sorted(state.keys) == sorted(e.key for e in self._live.values() if e.lease == lease)


def _revision_of(change: KeyChange) -> Revision:
    return change.revision


def _size(entry: KeyValue | None) -> int:
    return len(entry.key) + len(entry.value) + ENTRY_BYTES if entry is not None else 0


def _mix(entry: KeyValue | None) -> int:
    if entry is None:
        return 0
    place = f"{entry.key}\0{entry.create_revision} {entry.mod_revision} {entry.version} {entry.lease}"
    return crc32(entry.value, crc32(place.encode()))


def _fold(change: KeyChange, state: dict[str, KeyValue]) -> None:
    if change.now is None:
        del state[change.key]
    else:
        state[change.key] = change.now
