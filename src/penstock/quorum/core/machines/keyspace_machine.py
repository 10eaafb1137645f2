"""The KeySpace as a state machine of the quorum log: the pure store of `keyspace/core`, fed by the log. Design: O5, O6.

Time of leases is the log's. While leases exist the leader appends ticks (`lease_ticks.py`). What always holds:

- The time moves by ticks only: by at most `TICK_MS_MAX` each, and by 0 at the first tick of an epoch, for the machines
  share no clock. So it never moves faster than time does, and a bad clock moves it by little.
- A lease ends at the time of its last renewal + its ttl + `SLACK_MS`: a renewal comes up to one tick after the time
  that it gets. Without the slack a lease would end early.
- Equal logs make equal states: every bound is a constant of the format, and no refusal has words.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from penstock.kernel.errors import (
    Compacted,
    InvalidArgument,
    LeaseExpired,
    LimitExceeded,
    MalformedFrame,
    PreconditionFailed,
)
from penstock.kernel.ids import MILLISECOND, EntryId, Epoch, Instant, Revision
from penstock.kernel.probes import reached
from penstock.keyspace.core.limits import check_key, check_lease_ms, check_prefix, check_transaction
from penstock.keyspace.core.records import FIRST_REVISION, NO_REVISION, KeyValue, LeaseStatus, WatchBatch
from penstock.keyspace.core.store import KeyStore, StoreState
from penstock.keyspace.core.transaction import Transaction
from penstock.quorum.records.keyspace import (
    KEYSPACE_OP,
    KEYSPACE_QUERY,
    Compact,
    DoneAt,
    EntryAt,
    FoundKeySpace,
    GetKey,
    Grant,
    KeepAlive,
    KeySpaceOp,
    KeySpaceQuery,
    LeaseQuery,
    LeaseTick,
    No,
    RangePart,
    RangeQuery,
    Revoke,
    RunTransaction,
    StatusQuery,
    WatchQuery,
    Why,
    encode_answer,
)

__all__ = ["SLACK_MS", "TICK_MS_MAX", "KeySpaceMachine"]

TICK_MS_MAX: Final = 500
SLACK_MS: Final = 500
HISTORY_REVISIONS: Final = 10_000  # kept at least; twice as many at most
HISTORY_BYTES_MAX: Final = 64 << 20
LIVE_BYTES_MAX: Final = 1 << 30
ANSWER_BYTES_MAX: Final = 4 << 20
PAGE_BYTES: Final = 1 << 20
BATCH_BYTES: Final = 1 << 20
NO_EPOCH: Final = Epoch(0)
_REFUSALS: Final = (Compacted, InvalidArgument, LeaseExpired, LimitExceeded, PreconditionFailed)
_encode = msgspec.msgpack.Encoder().encode


class _Snapshot(msgspec.Struct, frozen=True, array_like=True):
    now: Instant
    tick_epoch: Epoch
    store: StoreState


_decode = msgspec.msgpack.Decoder(_Snapshot).decode


class KeySpaceMachine:
    """Keys, their history, and leases."""

    slack_ms = SLACK_MS
    tick_ms_max = TICK_MS_MAX

    def __init__(self) -> None:
        self.store = KeyStore("")
        self.now = Instant(0)  # the time of leases
        self._tick_epoch = NO_EPOCH  # of the last tick

    @property
    def wants_ticks(self) -> bool:
        """Are there leases, whose time must pass?"""
        return self.store.next_deadline() is not None

    # changing

    def apply(self, entry: EntryId, ops: bytes) -> bytes:
        """Apply an operation; return its answer, or a refusal."""
        try:
            answer = self._do(KEYSPACE_OP.decode(ops), entry)
        except MalformedFrame:
            answer = No(Why.INVALID)
        except _REFUSALS as refusal:
            answer = self._refused(refusal)
        self._trim()
        return encode_answer(answer)

    def _do(self, op: KeySpaceOp, entry: EntryId) -> Any:
        store = self.store
        match op:
            case RunTransaction(transaction):
                return self._transact(transaction)
            case LeaseTick(ms):
                self._tick(ms, entry.epoch)
            case KeepAlive(lease):
                return store.keep_alive(lease, self._renewed_at())
            case Grant(ttl_ms):
                check_lease_ms(ttl_ms)
                return store.grant(ttl_ms, self._renewed_at())
            case Revoke(lease):
                store.revoke(lease)
            case Compact(revision):
                store.compact(revision)
            case FoundKeySpace(store_id):
                store.found(store_id)
                return store.status()
        return DoneAt(store.revision)

    def _transact(self, transaction: Transaction) -> Any:
        check_transaction(transaction)
        store = self.store
        planned = store.plan(transaction)
        size = sum(_size(entry) for result in planned.results for entry in result)
        if size > ANSWER_BYTES_MAX:
            return No(Why.TOO_LARGE, size)
        grown = sum(_size(entry) for entry in planned.writes.values() if entry is not None)
        if grown and store.live_bytes + grown > LIVE_BYTES_MAX:
            return No(Why.FULL, store.live_bytes)
        return store.accept(planned)

    def _renewed_at(self) -> Instant:
        return Instant(self.now + self.slack_ms * MILLISECOND)

    def _tick(self, ms: int, epoch: Epoch) -> None:
        moved_ms = self.moved_by(ms, is_first=epoch != self._tick_epoch)
        self._tick_epoch = epoch
        self.now = Instant(self.now + moved_ms * MILLISECOND)
        if self.store.end_due(self.now):
            reached("keyspace_machine.lease_ended")

    def moved_by(self, ms: int, *, is_first: bool) -> int:
        """Return by how much a tick moves the time."""
        return 0 if is_first else max(0, min(ms, self.tick_ms_max))

    def _trim(self) -> None:
        """Compact a history that has become long, by the same rule on every replica."""
        store = self.store
        cut: int = NO_REVISION
        if store.revision - store.compacted > 2 * HISTORY_REVISIONS:
            cut = store.revision - HISTORY_REVISIONS
        if store.history_bytes > HISTORY_BYTES_MAX:
            cut = store.revision
        if cut > store.compacted:
            store.compact(Revision(cut))

    def _refused(self, refusal: Exception) -> No:
        match refusal:
            case LeaseExpired(details=details):
                return No(Why.LEASE_EXPIRED, int(details["lease"]))
            case Compacted():
                return No(Why.COMPACTED, self.store.compacted)
            case PreconditionFailed():
                return No(Why.TO_COME, self.store.revision)
            case _:
                return No(Why.INVALID)

    def checksum(self) -> int:
        return self.store.checksum ^ (self.store.revision - FIRST_REVISION) ^ self.now

    # asking

    def query(self, query: bytes) -> bytes:
        """Answer a question about the present state, or about a kept revision."""
        try:
            return encode_answer(self._answer(KEYSPACE_QUERY.decode(query)))
        except MalformedFrame:
            return encode_answer(No(Why.INVALID))
        except _REFUSALS as refusal:
            return encode_answer(self._refused(refusal))

    def _answer(self, query: KeySpaceQuery) -> Any:
        store = self.store
        match query:
            case GetKey(key, at):
                check_key(key)
                return EntryAt(store.revision, store.get(key, at))
            case RangeQuery(prefix, after, at):
                check_prefix(prefix)
                return RangePart(*store.page(prefix, after, at, PAGE_BYTES))
            case LeaseQuery(lease):
                status = store.lease_status(lease, self.now)
                return LeaseStatus(lease, status.ttl_ms, min(status.ttl_ms, status.remaining_ms), status.keys)
            case StatusQuery():
                return store.status()
            case WatchQuery():
                return No(Why.INVALID)  # a question for `changes`

    def changes(self, query: bytes, after: int) -> tuple[int, bytes] | None:
        """Return the next part of a watch after a revision, and its last revision; None if there is none yet."""
        if self.store.revision <= after:
            return None
        try:
            watch = KEYSPACE_QUERY.decode(query)
            if not isinstance(watch, WatchQuery):
                raise InvalidArgument("this question is not one of a watch")
            check_prefix(watch.prefix)
            batch: WatchBatch = self.store.batch(watch.prefix, Revision(after), BATCH_BYTES)
        except MalformedFrame:
            return after, encode_answer(No(Why.INVALID))
        except _REFUSALS as refusal:
            return after, encode_answer(self._refused(refusal))
        return batch.revision, encode_answer(batch)

    # snapshots

    def freeze(self) -> Callable[[], bytes]:
        """Return a function for the bytes of the present state, which may run later and in another thread."""
        state = self.store.dump()
        now, epoch = self.now, self._tick_epoch
        return lambda: _in_small_steps(now, epoch, state)

    def snapshot(self) -> bytes:
        return self.freeze()()

    def restore(self, data: bytes) -> None:
        if not data:
            self.store, self.now, self._tick_epoch = KeyStore(""), Instant(0), NO_EPOCH
            return
        snapshot = _decode(data)
        self.store, self.now, self._tick_epoch = KeyStore.load(snapshot.store), snapshot.now, snapshot.tick_epoch


def _size(entry: KeyValue) -> int:
    return len(entry.key) + len(entry.value) + 64


def _in_small_steps(now: Instant, epoch: Epoch, state: StoreState) -> bytes:
    """Encode a snapshot without one long call, which would keep the interpreter from every other thread."""
    empty = msgspec.structs.replace(state, base=[], history=[])
    head = _encode((now, epoch, empty))
    tail = _encode(state.leases)
    parts = [head[: len(head) - len(tail) - 2]]  # two empty lists are one byte each
    for items in (state.base, state.history):
        parts.append(_list_header(len(items)))
        parts += [_encode(item) for item in items]
    return b"".join([*parts, tail])


def _list_header(count: int) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big")
