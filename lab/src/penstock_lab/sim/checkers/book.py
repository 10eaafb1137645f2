"""The book: every entry ever written anywhere, the one committed log, and its effect on the state machine.

Invariants of quorum-log.md kept here: I1 (an id has one payload, ever, and one predecessor), I5 and I7 (the committed
logs of all nodes are prefixes of one log that only grows), I9 (no node stops inside a doomed range), I10 and I26 (the
fold of that log). A log is known by its last id: with I1, two logs with the same id at one offset are equal up to
there.
"""

from bisect import bisect_left, bisect_right, insort
from typing import Any

from penstock.kernel.ids import EntryId, Epoch, NodeId, Offset
from penstock.quorum.records.entry import Barrier, ClientId, Entry, Rollback, Txn
from penstock_lab.sim.checkers.shadow_log import ShadowLog

__all__ = ["FOR_EVER", "Author", "Book"]

FOR_EVER = 1 << 40
Author = tuple[NodeId, int]  # a node in one run of its process


class Book:
    """The memory of everything which must never change again."""

    def __init__(self, pairs_max: int = FOR_EVER) -> None:
        self._pairs_max = pairs_max  # remembered for each client
        self._remembered: dict[ClientId, list[int]] = {}
        self._floors: dict[ClientId, int] = {}
        self.entries: dict[tuple[int, int], Entry] = {}  # by (epoch, offset)
        self.epoch_before: dict[tuple[int, int], int] = {}
        self.authors: dict[Epoch, Author] = {}
        self.committed: list[Entry] = []  # at offset - 1
        self.ranges: list[tuple[int, int]] = []  # (f, j) of committed ROLLBACKs
        self.doomed: dict[int, None] = {}  # offsets of TXNs which are rolled back
        self.epochs: list[tuple[int, int]] = []  # (epoch, barrier), committed
        self.effects: dict[tuple[ClientId, int], int] = {}  # where a pair took effect
        self.retired: dict[tuple[ClientId, int], int] = {}  # where a pair was rolled back before it could
        self.lists: dict[bytes, list[tuple[int, bytes]]] = {}  # the state machine: key -> (offset, value) in order
        self._landings: list[int] = [0]  # every point that a node called committed, sorted

    @property
    def end(self) -> int:
        return len(self.committed)

    # all written entries

    def write(self, author: Author, offset: int, entry: Entry, epoch_before: int) -> bool:
        """Note an entry handed to a disk, after one of `epoch_before`. Returns whether it is new in the world."""
        id_ = (entry.epoch, offset)
        known = self.entries.get(id_)
        if known is not None:
            assert known is entry or known == entry, f"I1: {id_} is {known}, and now {entry}"
            assert self.epoch_before[id_] == epoch_before, f"I1: {id_} has two predecessors"
            return False
        self.entries[id_] = entry
        self.epoch_before[id_] = epoch_before
        owner = self.authors.setdefault(entry.epoch, author)
        assert owner == author, f"I2: {owner} and {author} append in epoch {entry.epoch}"
        return True

    # committed entries

    def epoch_at(self, offset: int) -> int:
        """The epoch of a committed entry; 0 before the first."""
        return self.committed[offset - 1].epoch if offset else 0

    def holds(self, id_: EntryId) -> bool:
        """Is this very entry committed?"""
        return 0 < id_.offset <= self.end and self.epoch_at(id_.offset) == id_.epoch

    def claim(self, who: str, log: ShadowLog, upto: int) -> bool:
        """Note that a node with this log calls everything up to `upto` committed. Returns whether that is news."""
        if upto <= self.end:
            assert upto < log.base.offset or log.epoch_at(upto) == self.epoch_at(upto), (
                f"I5: {who} calls {log.epoch_at(upto)}/{upto} committed, but that is {self.epoch_at(upto)}/{upto}"
            )
            self._land(who, upto)
            return False
        before = self.end
        assert before < log.base.offset or log.epoch_at(before) == self.epoch_at(before), (
            f"I5: {who} commits {upto} behind {log.epoch_at(before)}/{before}, but {self.epoch_at(before)}/{before} is"
        )
        self.committed += log.between(before + 1, upto)
        self._fold(before + 1)
        self._land(who, upto)
        return True

    def _land(self, who: str, at: int) -> None:
        for first, end in reversed(self.ranges):
            if end <= at:
                break
            assert not first <= at < end, f"I9: {who} stops at {at}, inside the doomed [{first}, {end})"
        index = bisect_left(self._landings, at)
        if index == len(self._landings) or self._landings[index] != at:
            insort(self._landings, at)

    def _fold(self, start: int) -> None:
        fresh = self.committed[start - 1 :]
        for offset, entry in enumerate(fresh, start):
            if type(entry) is Rollback:
                self._doom(entry.first, offset)
            elif type(entry) is Barrier:
                self.epochs.append((entry.epoch, offset))
        for offset, entry in enumerate(fresh, start):
            if type(entry) is Txn:
                self._apply(offset, entry)

    def _doom(self, first: int, at: int) -> None:
        index = bisect_left(self._landings, first)
        inside = self._landings[index : bisect_left(self._landings, at)]
        assert not inside, f"I9: [{first}, {at}) is rolled back, but somebody stopped at {inside}"
        self.ranges.append((first, at))
        for offset in range(first, at):
            if type(self.committed[offset - 1]) is Txn:
                self.doomed[offset] = None

    def _apply(self, offset: int, txn: Txn) -> None:
        pair = (txn.client, txn.seq)
        if pair in self.effects or pair in self.retired or self.is_expired(*pair):
            return
        self._remember(*pair)
        if offset in self.doomed:
            self.retired[pair] = offset
        else:
            self.effects[pair] = offset
            key, value, _ = txn.ops.split(b" ")
            self.lists.setdefault(key, []).append((offset, value))

    def is_expired(self, client: ClientId, seq: int) -> bool:
        """Is this pair among those that nobody remembers?"""
        return seq <= self._floors.get(client, 0) and seq not in self._remembered[client]

    def _remember(self, client: ClientId, seq: int) -> None:
        remembered = self._remembered.setdefault(client, [])
        remembered.append(seq)
        if len(remembered) > self._pairs_max:
            self._floors[client] = max(self._floors.get(client, 0), remembered.pop(0))

    def is_doomed(self, offset: int) -> bool:
        """Does a committed ROLLBACK cover this offset?"""
        return any(first <= offset < at for first, at in self.ranges)

    def list_at(self, key: bytes, applied: int) -> tuple[bytes, ...]:
        """Return the values of a key in the state machine when it has applied this much."""
        values = self.lists.get(key, [])
        return tuple(value for _, value in values[: bisect_right(values, applied, key=_offset_of)])

    def state_at(self, applied: int) -> dict[bytes, list[bytes]]:
        """The whole state machine at an offset."""
        return {key: list(now) for key in self.lists if (now := self.list_at(key, applied))}

    def is_displaced(self, id_: EntryId) -> bool:
        """Is an entry of a higher epoch committed at a smaller offset?"""
        return any(epoch > id_.epoch and barrier < id_.offset for epoch, barrier in self.epochs)

    def verdict(self, id_: EntryId) -> str:
        """Return the outcome of an entry, by the committed log: "committed", "aborted", or "pending" if it is open."""
        if id_.offset <= self.end:
            is_in = self.epoch_at(id_.offset) == id_.epoch and not self.is_doomed(Offset(id_.offset))
            return "committed" if is_in else "aborted"
        return "aborted" if self.is_displaced(id_) else "pending"


def _offset_of(item: tuple[int, Any]) -> int:
    return item[0]
