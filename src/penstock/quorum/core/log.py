"""A node's view of its own log: ids, epochs, doomed ranges and durability. Design: quorum-log.md P2, P10, P13.

The entries themselves are on the disk, numbered by their offsets. Kept here is what decides: the epoch table, the
doomed ranges, the CONFIRMs under way, and the payloads of the tail, so that memory stays bounded however long the log.
What always holds:

- base < first retained ≤ head + 1; durable ≤ head. Epochs never fall along the log (I3).
- A CONFIRM counts once it is durable here, and `confirmed` never falls, truncated CONFIRMs included (P4).
- Doomed ranges are disjoint or nested, in the order of their ROLLBACKs (I8).
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.kernel.errors import WalCorrupt
from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Offset
from penstock.quorum.records.entry import OVERHEAD_BYTES, Barrier, Confirm, Entry, Rollback, Txn, size_of
from penstock.quorum.records.state import Check, DoomedRange, EpochStart, SnapshotMeta

__all__ = ["Log"]

CHECKS_MAX = 64  # checksums of leaders that wait to be compared, the newest ones


class Log:
    """The index over one log, and its tail."""

    __slots__ = (
        "_epoch_starts", "_epochs", "_tail", "_tail_bytes", "_tail_first", "_unsettled_confirms",
        "base", "checks", "confirmed", "doomed", "durable", "end", "largest", "tail_bytes_max", "window_start",
    )  # fmt: skip

    def __init__(self, snapshot: SnapshotMeta, confirmed: Offset, tail_bytes_max: int) -> None:
        self.tail_bytes_max = tail_bytes_max
        self.confirmed = confirmed
        self.reset(snapshot)

    def reset(self, snapshot: SnapshotMeta) -> None:
        """Start a new log after a snapshot."""
        self.base = snapshot.head  # the id right before the first retained entry
        self.end = snapshot.head.offset  # the offset of the last entry, durable or not
        self.durable = self.end
        self.confirmed = Offset(max(self.confirmed, self.end))
        self.window_start = snapshot.window_start  # below this nothing is known of epochs and doomed ranges
        self.doomed: list[DoomedRange] = list(snapshot.doomed)
        self._epochs: list[Epoch] = [epoch for epoch, _ in snapshot.epochs]
        self._epoch_starts: list[Offset] = [start for _, start in snapshot.epochs]
        self._unsettled_confirms: deque[tuple[Offset, Confirm]] = deque()  # (where, what) of CONFIRMs not yet durable
        self.checks: tuple[Check, ...] = ()  # of CONFIRMs that are: not compared yet
        self._tail: list[Entry] = []
        self._tail_first = Offset(self.end + 1)
        self._tail_bytes = 0
        self.largest = OVERHEAD_BYTES  # no entry of the tail is larger

    # ids

    @property
    def head(self) -> EntryId:
        return EntryId(self.epoch_at(self.end), self.end)

    @property
    def durable_head(self) -> EntryId:
        return EntryId(self.epoch_at(self.durable), self.durable)

    @property
    def first(self) -> Offset:
        """The first entry that the disk still has; the offset after the head if it has none."""
        return Offset(self.base.offset + 1)

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        return tuple(zip(self._epochs, self._epoch_starts, strict=True))

    def epoch_at(self, offset: Offset) -> Epoch:
        """Return the epoch of the entry at `offset`; 0 where there is none, or it is no longer known."""
        if offset > self.end:
            return Epoch(0)
        index = bisect_right(self._epoch_starts, offset) - 1
        return self._epochs[index] if index >= 0 else Epoch(0)

    def id_at(self, offset: Offset) -> EntryId:
        return EntryId(self.epoch_at(offset), offset)

    def holds(self, entry: EntryId) -> bool:
        """Is this very entry here? Then everything before it is what its writer had before it, too."""
        return entry == NO_ENTRY or (entry.epoch > 0 and self.epoch_at(entry.offset) == entry.epoch)

    def highest_not_above(self, epoch: Epoch) -> EntryId:
        """The highest id with an epoch of at most this one (P13): as far as a log of that epoch can agree with ours."""
        index = bisect_right(self._epochs, epoch)
        last = Offset(self._epoch_starts[index] - 1) if index < len(self._epochs) else self.end
        return self.id_at(last) if index else NO_ENTRY

    def barrier(self, epoch: Epoch) -> Offset | None:
        """Return where this epoch begins here."""
        index = bisect_left(self._epochs, epoch)
        has_it = index < len(self._epochs) and self._epochs[index] == epoch
        return self._epoch_starts[index] if has_it else None

    # doomed ranges

    def landing(self, offset: Offset) -> Offset:
        """Round down until outside every doomed range: a commit passes [f, j) in one jump, or stops before it (P2)."""
        for first, at in reversed(self.doomed):
            if at <= offset:
                break
            if first <= offset:
                offset = Offset(first - 1)
        return offset

    def is_doomed(self, offset: Offset) -> bool:
        """Does a ROLLBACK in this log cover this offset?"""
        return any(first <= offset for first, at in reversed(self.doomed) if at > offset)

    def doomed_between(self, first: Offset, last: Offset) -> tuple[Offset, ...]:
        """Return every doomed offset of a range, for the applier."""
        if not self.doomed or self.doomed[-1][1] <= first:
            return ()
        return tuple([Offset(offset) for offset in range(first, last + 1) if self.is_doomed(Offset(offset))])

    # growing

    def append(self, entries: Sequence[Entry]) -> Offset:
        """Add entries after the head; return the offset of the first. They are not durable yet."""
        first = offset = Offset(self.end + 1)
        last_epoch = self._epochs[-1] if self._epochs else Epoch(0)
        size = largest = 0
        for entry in entries:
            if entry.epoch != last_epoch:
                assert entry.epoch > last_epoch, "epochs never fall along a log"
                last_epoch = entry.epoch
                self._epochs.append(last_epoch)
                self._epoch_starts.append(offset)
            if isinstance(entry, Txn):
                length = len(entry.ops)
                size += length
                largest = max(largest, length)
            elif isinstance(entry, Confirm):
                self._unsettled_confirms.append((offset, entry))
            elif isinstance(entry, Rollback):
                self.doomed.append((entry.first, offset))
            offset = Offset(offset + 1)
        self._extend(entries, size + OVERHEAD_BYTES * len(entries), largest + OVERHEAD_BYTES)
        return first

    def append_transactions(self, txns: Sequence[Txn], size: int, largest: int) -> Offset:
        """Append transactions of the epoch in which the log ends: only the tail grows, so no entry is inspected."""
        first = Offset(self.end + 1)
        self._extend(txns, size, largest)
        return first

    def _extend(self, entries: Sequence[Entry], size: int, largest: int) -> None:
        self.end = Offset(self.end + len(entries))
        self._tail.extend(entries)
        self._tail_bytes += size
        self.largest = max(self.largest, largest)
        if self._tail_bytes > 2 * self.tail_bytes_max:
            self._shorten_tail()

    def made_durable(self, upto: Offset) -> None:
        """Everything up to `upto` is on the disk, CONFIRMs included."""
        self.durable = upto
        confirms = self._unsettled_confirms
        while confirms and confirms[0][0] <= upto:
            _, confirm = confirms.popleft()
            self.confirmed = Offset(max(self.confirmed, confirm.upto))
            if confirm.checked:
                check = (Offset(confirm.checked), Epoch(confirm.epoch), confirm.checksum)
                self.checks = (*self.checks[1 - CHECKS_MAX :], check)

    def take_checks(self, applied: Offset) -> tuple[Check, ...]:
        """Return the checksums to compare with a state machine that has applied so much, each once."""
        if not self.checks:
            return ()
        due = tuple([check for check in self.checks if check[0] <= applied])
        self.checks = tuple([check for check in self.checks if check[0] > applied])
        return due

    def _shorten_tail(self) -> None:
        """Forget the oldest payloads, many at once: amortised, this costs nothing. Payloads that are not
        durable stay.
        """
        keep = len(self._tail)
        kept_bytes = 0
        while keep and (kept_bytes <= self.tail_bytes_max or self._tail_first + keep > self.durable + 1):
            keep -= 1
            kept_bytes += size_of(self._tail[keep])
        del self._tail[:keep]
        self._tail_first = Offset(self._tail_first + keep)
        self._tail_bytes = kept_bytes

    # reading

    def is_in_tail(self, offset: Offset) -> bool:
        return offset >= self._tail_first

    def tail_between(self, first: Offset, last: Offset, bytes_max: int) -> tuple[Entry, ...]:
        """Entries of the tail from `first` on, at most up to `last`; one at least, then as many as the bytes allow."""
        assert self.is_in_tail(first), (first, self._tail_first)
        start = first - self._tail_first
        entries = self._tail[start : last + 1 - self._tail_first]
        if len(entries) * self.largest <= bytes_max:
            return tuple(entries)
        return cut_to_bytes(entries, bytes_max)

    # shrinking

    def truncate(self, to: Offset) -> None:
        """Drop every entry behind `to`. `confirmed` stays: what a dropped CONFIRM said is still a fact."""
        assert self.base.offset <= to <= self.end, (self.base, to, self.end)
        self.end = to
        self.durable = Offset(min(self.durable, to))
        while self._epoch_starts and self._epoch_starts[-1] > to:
            self._epoch_starts.pop()
            self._epochs.pop()
        while self.doomed and self.doomed[-1][1] > to:
            self.doomed.pop()
        while self._unsettled_confirms and self._unsettled_confirms[-1][0] > to:
            self._unsettled_confirms.pop()
        if to < self._tail_first:
            self._tail, self._tail_first, self._tail_bytes = [], Offset(to + 1), 0
        else:
            dropped = self._tail[to + 1 - self._tail_first :]
            del self._tail[to + 1 - self._tail_first :]
            self._tail_bytes -= sum(map(size_of, dropped))

    def trim(self, first: Offset) -> None:
        """Entries before `first` are gone from the disk: a snapshot holds their effect."""
        assert self.first <= first <= self.durable + 1, (self.first, first, self.durable)
        self.base = self.id_at(Offset(first - 1))
        if first > self._tail_first:
            dropped = self._tail[: first - self._tail_first]
            del self._tail[: first - self._tail_first]
            self._tail_first, self._tail_bytes = first, self._tail_bytes - sum(map(size_of, dropped))

    def forget_before(self, window_start: Offset) -> None:
        """Drop epochs and doomed ranges for which `resolve` no longer answers."""
        if window_start <= self.window_start:
            return
        self.window_start = window_start
        index = bisect_right(self._epoch_starts, window_start) - 1
        if index > 0:
            del self._epochs[:index], self._epoch_starts[:index]
        self.doomed = [(first, at) for first, at in self.doomed if at > window_start]

    def snapshot_at(self, offset: Offset) -> SnapshotMeta:
        """Return the part of the log that a snapshot at this offset carries."""
        assert self.landing(offset) == offset, "a snapshot inside a doomed range would hold what never happened"
        epochs = tuple((epoch, start) for epoch, start in self.epochs if start <= offset)
        doomed = tuple((first, at) for first, at in self.doomed if at <= offset)
        return SnapshotMeta(self.id_at(offset), epochs, doomed, self.window_start)

    # for observers

    def recover(self, first: Offset, entries: Iterable[Entry]) -> bool:
        """Read back what the disk has, from `first` on; all of it is durable.

        Returns False if those entries are what a snapshot has replaced: the crash came before they were dropped.
        """
        snapshot, last = self.base, Offset(first - 1)
        for entry in entries:
            last = Offset(last + 1)
            if last == snapshot.offset and entry.epoch != snapshot.epoch:
                return False
            if last > snapshot.offset:
                if last != self.end + 1:
                    raise WalCorrupt(f"entries are missing between {self.end} and {last}")
                self.append((entry,))
                self.made_durable(self.end)
        if first <= last < snapshot.offset:
            return False
        if last >= first and first <= snapshot.offset:
            self.base = self.id_at(Offset(first - 1))  # entries before the snapshot, kept for late followers
        if self.confirmed > self.end:
            raise WalCorrupt(f"the log ends at {self.end}, but everything up to {self.confirmed} was committed")
        return True

    def copy(self) -> "Log":
        """An equal log which shares nothing that changes."""
        twin = Log.__new__(type(self))
        for name in (
            "base", "checks", "confirmed", "durable", "end", "largest", "tail_bytes_max", "window_start",
            "_tail_first", "_tail_bytes",
        ):  # fmt: skip
            setattr(twin, name, getattr(self, name))
        twin.doomed = list(self.doomed)
        twin._epochs, twin._epoch_starts = list(self._epochs), list(self._epoch_starts)
        twin._unsettled_confirms = deque(self._unsettled_confirms)
        twin._tail = list(self._tail)
        return twin

    def fingerprint(self) -> tuple[Any, ...]:
        """Return everything that decides the log's answers, as a hashable value."""
        return (
            self.base, self.end, self.durable, self.confirmed, self.epochs, tuple(self.doomed),
            tuple(self._unsettled_confirms), self.checks, self._tail_first, tuple(self._tail),
        )  # fmt: skip

    def check(self) -> None:
        """I3, I8 and the index against the tail."""
        assert self.base.offset <= self.end
        assert self.durable <= self.end
        assert self.confirmed <= self.durable
        assert self._tail_first + len(self._tail) == self.end + 1
        assert self._tail_bytes == sum(map(size_of, self._tail))
        assert all(size_of(entry) <= self.largest for entry in self._tail)
        assert self._epochs == sorted(set(self._epochs))
        assert self._epoch_starts == sorted(set(self._epoch_starts))
        for offset, entry in enumerate(self._tail, self._tail_first):
            assert self.epoch_at(Offset(offset)) == entry.epoch
            is_first = self.barrier(entry.epoch) == offset
            assert (type(entry) is Barrier) == is_first, f"the first entry of an epoch is its barrier: {offset}"
            assert type(entry) is not Rollback or (entry.first, offset) in self.doomed
        for first, at in self.doomed:
            assert first < at
            assert self.epoch_at(first) == self.epoch_at(at), "a ROLLBACK stays within its epoch"
            assert not any(first < other < at < end for other, end in self.doomed), "disjoint or nested"
            assert not any(other < first < end < at for other, end in self.doomed), "disjoint or nested"


def cut_to_bytes(entries: Sequence[Entry], bytes_max: int) -> tuple[Entry, ...]:
    """Return as many entries as the bytes allow, one at least."""
    size = 0
    for count, entry in enumerate(entries):
        size += size_of(entry)
        if size > bytes_max and count:
            return tuple(entries[:count])
    return tuple(entries)
