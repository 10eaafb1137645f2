"""The state machine port: what a shard's committed transactions are applied to. Design: quorum-log.md P2, P4, P10.

A `StateMachine` is deterministic: its state is a function of the transactions it was given, in order. The `Applier` is
the layer between the log and the machine. It runs the `Apply` effects of a node and makes the machine exactly-once:

- Each (client, seq) takes effect at most once (I26). The log may hold several copies of a pair: the first one decides,
  and each later copy gets the result of the pair. The Applier is the authority for that.
- The pairs of a rolled-back transaction are retired: a late duplicate of it has no effect either.
- A pair too old to be known is `Expired`: it has no effect, and whether it had one is unknown.
- A running checksum over everything applied is compared with the one that every CONFIRM carries. A majority
  decides which of two is wrong (decision 0108).
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable
from zlib import crc32

import msgspec

from penstock.kernel.ids import EntryId, Offset
from penstock.quorum.core.machines.pairs import PairLimits, Pairs, Seen
from penstock.quorum.records.effects import Applied, Apply
from penstock.quorum.records.entry import Barrier, ClientId, Txn
from penstock.quorum.records.state import Check, Comparison

__all__ = ["Applier", "Duplicate", "Expired", "Freezing", "Retired", "StateMachine"]

COPIES_MAX = 65_536  # offsets of copies without effect, kept for readers of the log


class StateMachine(Protocol):
    """What a user of the log implements. No clock, no randomness, no I/O that matters: replicas must agree."""

    def apply(self, entry: EntryId, ops: bytes) -> Any:
        """Change the state; return the client's result, a value that msgpack can hold. A refusal is a result, too."""
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


@runtime_checkable
class Freezing(Protocol):
    """A state machine whose state can be set aside at once, and encoded later by another thread (O16)."""

    def freeze(self) -> Callable[[], bytes]:
        """Return a function for the bytes of `snapshot()` as it is now. Later changes do not show in them."""
        ...


class Retired(msgspec.Struct, frozen=True, tag=True):
    """This (client, seq) was rolled back: a retry must use a new seq."""


class Duplicate(msgspec.Struct, frozen=True, tag=True):
    """This (client, seq) took effect at `entry`, with this result."""

    entry: EntryId
    result: Any


class Expired(msgspec.Struct, frozen=True, tag=True):
    """The fate of this (client, seq) is forgotten: this copy has no effect."""


class _Snapshot(msgspec.Struct, frozen=True, array_like=True):
    applied: Offset
    fact: Offset
    checksum: int
    seen: list[Seen]
    machine: bytes
    floors: list[tuple[ClientId, int, bool]] = []
    copies: list[Offset] = []


_encode = msgspec.msgpack.Encoder().encode
_decode_snapshot = msgspec.msgpack.Decoder(_Snapshot).decode


class Applier:
    """A state machine that applies the log's committed prefix."""

    def __init__(
        self, machine: StateMachine, *, limits: PairLimits | None = None, checksum_window: int = 16_384
    ) -> None:
        self.machine = machine
        self.applied = Offset(0)
        # The last TXN or BARRIER applied. Followers get that far, idle or not; a later CONFIRM is applied at once only
        # by the leader (P3, P4), so a client that waits for everything elsewhere gets this offset.
        self.fact = Offset(0)
        self.checksum = 0
        self.pairs = Pairs(limits or PairLimits())
        self._copies: list[Offset] = []  # undoomed transactions which had no effect, in order
        self._sums: deque[int] = deque(maxlen=checksum_window)  # the checksum at each of the last offsets

    def apply(self, effect: Apply) -> Applied:
        """Run the effect; the result goes back to the node."""
        assert effect.first == self.applied + 1, (effect.first, self.applied)
        doomed = frozenset(effect.doomed)
        results: list[Any] = []
        for offset, entry in enumerate(effect.entries, effect.first):
            result = None
            if isinstance(entry, Txn):
                self.fact = Offset(offset)
                if doomed and offset in doomed:
                    result = self._retire(entry)
                else:
                    result = self._apply_once(EntryId(entry.epoch, Offset(offset)), entry)
            elif isinstance(entry, Barrier):
                self.fact = Offset(offset)
            results.append(result)
            self._sums.append(self.checksum)
        self.applied = Offset(effect.first + len(results) - 1)
        return Applied(self.applied, tuple(results), self.checksum, self._compare(effect.checks))

    def _apply_once(self, id_: EntryId, txn: Txn) -> Any:
        ruling = self._ruling(txn)
        if ruling is not None:
            self._copies.append(id_.offset)
            if len(self._copies) > COPIES_MAX:
                del self._copies[: COPIES_MAX // 2]
            return ruling
        machine = self.machine
        result = machine.apply(id_, txn.ops)
        self.checksum = crc32(_encode((id_.offset, result, machine.checksum())), crc32(txn.ops, self.checksum))
        self.pairs.keep(Seen(txn.client, txn.seq, id_, result))
        return result

    def _ruling(self, txn: Txn) -> Duplicate | Retired | Expired | None:
        """Return what became of this pair before; None if nothing did."""
        seen = self.pairs.find(txn.client, txn.seq)
        if seen is not None:
            return Retired() if seen.entry is None else Duplicate(seen.entry, seen.result)
        return Expired() if self.pairs.is_expired(txn.client, txn.seq) else None

    def _retire(self, txn: Txn) -> Duplicate | Retired | Expired:
        """Retire a rolled-back pair, which never takes effect; a pair that already did keeps its result."""
        ruling = self._ruling(txn)
        if ruling is None:
            self.pairs.keep(Seen(txn.client, txn.seq, None, None))
            ruling = Retired()
        return ruling

    def has_effect(self, offset: Offset) -> bool:
        """Did the transaction at this offset take effect there? Ask for one that is applied and not rolled back."""
        index = bisect_left(self._copies, offset)
        return index == len(self._copies) or self._copies[index] != offset

    def forget_before(self, first: Offset) -> None:
        """Drop the places before `first`, where the log begins now."""
        del self._copies[: bisect_left(self._copies, first)]

    def _compare(self, checks: Sequence[Check]) -> tuple[Comparison, ...]:
        """Return the own checksum and a leader's, at each offset where the own one is still known."""
        sums, applied = self._sums, self.applied
        return tuple(
            [
                Comparison(offset, epoch, expected, sums[offset - applied - 1])
                for offset, epoch, expected in checks
                if 0 <= applied - offset < len(sums)
            ]
        )

    # snapshots

    def snapshot(self) -> bytes:
        """Return everything that another node needs to continue from here."""
        return self.freeze()()

    def freeze(self) -> Callable[[], bytes]:
        """Return a function for the bytes of the present state. It may run in another thread, while more is applied."""
        seen, floors = self.pairs.dump()
        machine = self.machine
        state = machine.freeze() if isinstance(machine, Freezing) else _as_it_is(machine.snapshot())
        applied, fact, checksum, copies = self.applied, self.fact, self.checksum, list(self._copies)
        return lambda: _in_small_steps(_Snapshot(applied, fact, checksum, [], b"", floors, copies), seen, state())

    def restore(self, data: bytes) -> None:
        """Go to where the snapshot was taken; empty data is the start."""
        snapshot = _decode_snapshot(data) if data else _Snapshot(Offset(0), Offset(0), 0, [], b"")
        self.machine.restore(snapshot.machine)
        self.applied, self.fact, self.checksum = snapshot.applied, snapshot.fact, snapshot.checksum
        self.pairs.load(snapshot.seen, snapshot.floors)
        self._copies = list(snapshot.copies)
        self._sums.clear()

    def check(self) -> None:
        self.pairs.check()


def _as_it_is(data: bytes) -> Callable[[], bytes]:
    return lambda: data


def _in_small_steps(frame: _Snapshot, seen: list[Seen], machine: bytes) -> bytes:
    """Encode a snapshot without one long call, which would keep the interpreter from every other thread."""
    head = _encode((frame.applied, frame.fact, frame.checksum))
    pairs = [b"\xdd" + len(seen).to_bytes(4, "big"), *[_encode(each) for each in seen]]
    size = b"\xc6" + len(machine).to_bytes(4, "big")
    # an array of seven fields, of which `_encode` has written three
    return b"".join([b"\x97", head[1:], *pairs, size, machine, _encode(frame.floors), _encode(frame.copies)])
