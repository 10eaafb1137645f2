"""The state machine port: what a shard's committed transactions are applied to. Design: quorum-log.md P2, P4, P10.

A `StateMachine` is deterministic: its state is a function of the transactions it was given, in order. The `Applier`
stands between the log and the machine. It runs the `Apply` effects of a node and makes the machine exactly-once:

- Each (client, seq) takes effect at most once within a window, by exact pair (I26): a duplicate gets the first result.
- The pairs of a rolled-back transaction are retired: a late duplicate of it has no effect either.
- A running checksum over everything applied is compared with the one every CONFIRM carries: a replica which computed
  something else than its leader says so, at the offset where it shows.
"""

from collections import OrderedDict, deque
from typing import Any, Protocol
from zlib import crc32

import msgspec

from penstock.kernel.ids import EntryId, Epoch, Offset
from penstock.quorum.records.effects import Applied, Apply, Divergence
from penstock.quorum.records.entry import Barrier, ClientId, Confirm, Txn

__all__ = ["Applier", "Duplicate", "Retired", "StateMachine"]


class StateMachine(Protocol):
    """What a user of the log implements. No clock, no randomness, no I/O that matters: replicas must agree."""

    def apply(self, entry: EntryId, ops: bytes) -> Any:
        """Change the state; return what the client is told, something msgpack can hold. A refusal is a result, too."""
        ...

    def checksum(self) -> int:
        """A number which differs where states differ, kept up to date by `apply`; 0 if the results show everything."""
        ...

    def snapshot(self) -> bytes:
        """The whole state."""
        ...

    def restore(self, data: bytes) -> None:
        """Replace the whole state; empty data is the state before the first transaction."""
        ...


class Retired(msgspec.Struct, frozen=True, tag=True):
    """This (client, seq) was rolled back: a retry must use a new seq."""


class Duplicate(msgspec.Struct, frozen=True, tag=True):
    """This (client, seq) took effect at `entry`, with this result."""

    entry: EntryId
    result: Any


class _Seen(msgspec.Struct, frozen=True, array_like=True):
    client: ClientId
    seq: int
    entry: EntryId | None  # None: retired
    result: Any


class _Snapshot(msgspec.Struct, frozen=True, array_like=True):
    applied: Offset
    fact: Offset
    checksum: int
    seen: list[_Seen]
    machine: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode_snapshot = msgspec.msgpack.Decoder(_Snapshot).decode


class Applier:
    """A state machine behind the log's committed prefix."""

    def __init__(self, machine: StateMachine, *, dedup_window: int = 100_000, checksum_window: int = 16_384) -> None:
        self.machine = machine
        self.applied = Offset(0)
        # The last TXN or BARRIER applied. Followers get that far, idle or not; a CONFIRM behind it only the leader
        # applies at once (P3, P4), so whoever is to wait for "all there is" elsewhere is told this offset.
        self.fact = Offset(0)
        self.checksum = 0
        self._dedup_window = dedup_window
        # In the order they were applied. (To find a plain dict's first key, every deleted one before it is passed.)
        self._seen: OrderedDict[tuple[ClientId, int], _Seen] = OrderedDict()
        self._sums: deque[int] = deque(maxlen=checksum_window)  # the checksum at each of the last offsets

    def apply(self, effect: Apply) -> Applied:
        """Run the effect; what it returns goes back to the node."""
        assert effect.first == self.applied + 1, (effect.first, self.applied)
        doomed = frozenset(effect.doomed)
        results: list[Any] = []
        divergence: Divergence | None = None
        for offset, entry in enumerate(effect.entries, effect.first):
            result = None
            if isinstance(entry, Txn):
                self.fact = Offset(offset)
                if doomed and offset in doomed:
                    self._retire(entry)
                else:
                    result = self._apply_once(EntryId(entry.epoch, Offset(offset)), entry)
            elif isinstance(entry, Confirm) and divergence is None:
                divergence = self._compare(entry, Offset(offset - 1))
            elif isinstance(entry, Barrier):
                self.fact = Offset(offset)
            results.append(result)
            self._sums.append(self.checksum)
        self.applied = Offset(effect.first + len(results) - 1)
        return Applied(self.applied, tuple(results), self.checksum, divergence)

    def _apply_once(self, id_: EntryId, txn: Txn) -> Any:
        key = (txn.client, txn.seq)
        seen = self._seen.get(key)
        if seen is not None:
            return Retired() if seen.entry is None else Duplicate(seen.entry, seen.result)
        machine = self.machine
        result = machine.apply(id_, txn.ops)
        self.checksum = crc32(_encode((id_.offset, result, machine.checksum())), crc32(txn.ops, self.checksum))
        self._seen[key] = _Seen(txn.client, txn.seq, id_, result)
        if len(self._seen) > self._dedup_window:
            self._forget_oldest()
        return result

    def _retire(self, txn: Txn) -> None:
        """A rolled-back pair never takes effect; one which already did keeps its result."""
        if (txn.client, txn.seq) not in self._seen:
            self._seen[txn.client, txn.seq] = _Seen(txn.client, txn.seq, None, None)
            if len(self._seen) > self._dedup_window:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        self._seen.popitem(last=False)

    def _compare(self, confirm: Confirm, applied: Offset) -> Divergence | None:
        """The leader wrote down its checksum at an offset it had applied; here is ours, if we still know it."""
        back = applied - confirm.checked
        if not 0 <= back < len(self._sums):
            return None
        actual = self._sums[-1 - back]
        if actual == confirm.checksum:
            return None
        return Divergence(confirm.checked, Epoch(confirm.epoch), confirm.checksum, actual)

    # snapshots

    def snapshot(self) -> bytes:
        """Everything needed to go on from here on another node."""
        return _encode(
            _Snapshot(self.applied, self.fact, self.checksum, list(self._seen.values()), self.machine.snapshot())
        )

    def restore(self, data: bytes) -> None:
        """Go to where the snapshot was taken; empty data is the start."""
        snapshot = _decode_snapshot(data) if data else _Snapshot(Offset(0), Offset(0), 0, [], b"")
        self.machine.restore(snapshot.machine)
        self.applied, self.fact, self.checksum = snapshot.applied, snapshot.fact, snapshot.checksum
        self._seen = OrderedDict(((seen.client, seen.seq), seen) for seen in snapshot.seen)
        self._sums.clear()

    def check(self) -> None:
        assert len(self._seen) <= self._dedup_window
