"""The head record of a journal: what its last certified epoch was, and where the last epochs began. Design: journals.md
J2, J11, J12, J13.

It lives in the KeySpace without a lease and changes only by compare-and-set: only the primary of a synchronized
pipeline certifies it. A journal without one is virgin. A deleted journal leaves its record as a tombstone, which
differs from the next life of the name by `create_revision`.

What always holds: epochs rise strictly along the table, starts do not fall, the last entry is (epoch, start).
"""

from itertools import pairwise
from typing import Final

import msgspec

from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.registers import Registers
from penstock.kernel.ids import Incarnation, NodeId, Offset, Revision

__all__ = ["EMPTY_TABLE", "TABLE_MAX", "EpochStart", "HeadRecord", "HeadTable", "Member"]

TABLE_MAX: Final = 64


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


class HeadTable(msgspec.Struct, frozen=True, array_like=True):
    """The last certified epochs, oldest first."""

    entries: tuple[EpochStart, ...] = ()
    is_cut: bool = False  # older entries were dropped

    def first_after(self, epoch: PipelineEpoch) -> EpochStart | None:
        """The entry which decides what becomes of this epoch's tail: the first later one, never the last (S11, S12)."""
        return next((entry for entry in self.entries if entry.epoch > epoch), None)

    def has_forgotten(self, epoch: PipelineEpoch) -> bool:
        """Return whether the entry after this epoch may be one of the dropped ones."""
        return self.is_cut and bool(self.entries) and epoch < self.entries[0].epoch

    def with_entry(self, entry: EpochStart) -> "HeadTable":
        entries = (*self.entries, entry)
        return HeadTable(entries[-TABLE_MAX:], self.is_cut or len(entries) > TABLE_MAX)


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
