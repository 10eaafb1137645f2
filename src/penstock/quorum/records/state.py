"""A node's state besides its log: one small record, replaced atomically. Design: quorum-log.md P4, P14."""

import msgspec

from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Offset
from penstock.quorum.records.member import Member

__all__ = ["NO_SNAPSHOT", "Check", "Comparison", "DoomedRange", "EpochStart", "NodeState", "SnapshotMeta"]

EpochStart = tuple[Epoch, Offset]  # an epoch, and the offset of its barrier
DoomedRange = tuple[Offset, Offset]  # (f, j): the transactions in [f, j) are rolled back by the ROLLBACK at j
Check = tuple[Offset, Epoch, int]  # an offset, the epoch of a leader that had applied up to there, and its checksum


class SnapshotMeta(msgspec.Struct, frozen=True):
    """A snapshot of the state machine: the log up to `head`, folded. What `resolve` needs of that log is kept here."""

    head: EntryId = NO_ENTRY
    epochs: tuple[EpochStart, ...] = ()
    doomed: tuple[DoomedRange, ...] = ()
    window_start: Offset = Offset(1)  # below this, `resolve` answers EXPIRED


NO_SNAPSHOT = SnapshotMeta()


class Comparison(msgspec.Struct, frozen=True):
    """A checksum of this replica's state machine, and the one that it is compared with."""

    offset: Offset  # both have applied the same entries up to here
    epoch: Epoch  # of the leader that compared
    expected: int
    actual: int

    @property
    def differs(self) -> bool:
        return self.expected != self.actual

    def __str__(self) -> str:
        return f"at entry {self.offset} its checksum is {self.actual}, and {self.expected} was expected"


class NodeState(msgspec.Struct, frozen=True):
    """The durable registers of a node."""

    member: Member
    epoch: Epoch = Epoch(0)
    confirmed: Offset = Offset(0)  # committed for certain; a CONFIRM which said so may be truncated or trimmed since
    snapshot: SnapshotMeta = NO_SNAPSHOT
    is_formatted: bool = False  # it has joined its shard, by its first Fence or by a Snapshot
    divergence: Comparison | None = None  # a majority found its state machine wrong: for the life of this incarnation
