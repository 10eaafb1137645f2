"""The head record of a journal: what its last certified epoch was, and where the last epochs began. Design: journals.md
J2, J11, J12, J13, and decision 312.

It lives in the KeySpace without a lease and changes only by compare-and-set: only the primary of a synchronized
pipeline certifies it. A journal without one is virgin. A deleted journal leaves its record as a tombstone, which
differs from the next life of the name by `create_revision`.

What always holds: epochs rise strictly along the table, starts do not fall, the last entry is (epoch, start). The entry
after which a broker left stays until the broker is a member again: its Spool may hold content that was never stored.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import msgspec

from penstock.journals.records.epoch import NO_EPOCH, PipelineEpoch
from penstock.journals.records.registers import Registers
from penstock.kernel.ids import Incarnation, NodeId, Offset, Revision

__all__ = ["EMPTY_TABLE", "LEFT_MAX", "TABLE_MAX", "EpochStart", "HeadRecord", "HeadTable", "Member"]

TABLE_MAX: Final = 64
LEFT_MAX: Final = 64  # older entries, for the brokers that left under them


class Member(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A broker with one life of its Spool: a broker that lost acknowledged content comes back as another member."""

    broker: NodeId
    incarnation: Incarnation

    def __str__(self) -> str:
        return f"{self.broker}#{self.incarnation}"


class EpochStart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a certified epoch began: content of older epochs below it is committed, their content above it is not."""

    epoch: PipelineEpoch
    start: Offset
    is_reset: bool = False  # by reset-head, or the first of a new life: earlier commits are unknown
    after: PipelineEpoch = NO_EPOCH  # the epoch that was certified before this one
    left: tuple[NodeId, ...] = ()  # members of that epoch that are none of this one
    sure: Offset | None = None  # from here to `start`, too few members had the content; None: they were enough


class HeadTable(msgspec.Struct, frozen=True, array_like=True):
    """The last certified epochs, oldest first."""

    entries: tuple[EpochStart, ...] = ()
    is_cut: bool = False  # older entries were dropped

    def first_after(self, epoch: PipelineEpoch) -> EpochStart | None:
        """The entry which decides what becomes of this epoch's tail: the first later one, never the last (S11, S12)."""
        return next((entry for entry in self.entries if entry.epoch > epoch), None)

    def has_forgotten(self, epoch: PipelineEpoch) -> bool:
        """Return whether the entry after this epoch may be one of the dropped ones."""
        entry = self.first_after(epoch)
        if entry is None or entry.after == NO_EPOCH:
            return self.is_cut and bool(self.entries) and epoch < self.entries[0].epoch
        return epoch < entry.after

    def with_entry(self, entry: EpochStart, members: Iterable[NodeId] = (), table_max: int = TABLE_MAX) -> "HeadTable":
        """Return the table after a certification. A member of the new epoch is no longer one that left."""
        here = frozenset(members)
        after = self.entries[-1].epoch if self.entries else NO_EPOCH
        older = [_without(each, here) for each in self.entries]
        kept = [each for each in older[: 1 - table_max] if each.left][-LEFT_MAX:]
        entries = (*kept, *older[1 - table_max :], msgspec.structs.replace(entry, after=after))
        return HeadTable(entries, self.is_cut or len(entries) <= len(self.entries))

    def is_in_doubt(self, end: Offset) -> bool:
        """Return whether a sync kept this content although too few members had it."""
        entry = next((each for each in self.entries if end <= each.start), None)
        return entry is not None and entry.sure is not None and entry.sure < end


def _without(entry: EpochStart, here: frozenset[NodeId]) -> EpochStart:
    if here.isdisjoint(entry.left):
        return entry
    return msgspec.structs.replace(entry, left=tuple(each for each in entry.left if each not in here))


EMPTY_TABLE = HeadTable()


class HeadRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the KeySpace knows about a journal's content."""

    create_revision: Revision  # of the journal's life it speaks of
    epoch: PipelineEpoch
    start: Offset
    members: tuple[Member, ...]
    primary: NodeId
    registers: Registers  # at `start`
    limit: Offset  # no offset at or above was ever proposed
    table: HeadTable
    begin: Offset = Offset(0)  # of this life: fragments below are of a former one

    def check(self) -> None:
        """Assert every invariant."""
        entries = self.table.entries
        assert entries[-1].epoch == self.epoch, (entries, self.epoch)
        assert entries[-1].start == self.start, (entries, self.start)
        assert self.begin <= self.start <= self.limit
        for before, after in pairwise(entries):
            assert before.epoch < after.epoch, f"I8: epochs do not rise along the table: {entries}"
            assert before.start <= after.start, f"I7: starts fall along the table: {entries}"
