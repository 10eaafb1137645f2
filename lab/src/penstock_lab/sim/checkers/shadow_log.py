"""The log that a node has handed to its disk, by its effects alone; and the real content of a disk.

A shadow log is built from `Persist`, `TruncateLog`, `TrimLog` and the snapshots in `SaveState`: no node is asked.
"""

from collections.abc import Sequence

from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Offset
from penstock.quorum.records.entry import Entry
from penstock.quorum.records.state import NodeState
from penstock_lab.sim.disk import SimDisk

__all__ = ["ShadowLog", "durable_epoch_at", "durable_head", "is_replaced"]


class ShadowLog:
    """Entries from `first` on, behind `base`."""

    __slots__ = ("base", "entries")

    def __init__(self, base: EntryId = NO_ENTRY, entries: Sequence[Entry] = ()) -> None:
        self.base = base
        self.entries: list[Entry] = list(entries)

    @classmethod
    def found(cls, disk: SimDisk) -> "ShadowLog":
        """The log a process finds on its disk when it starts."""
        state: NodeState = disk.state
        head = state.snapshot.head
        if is_replaced(disk) or not disk.records:
            return cls(head)
        before = disk.first - 1
        epochs = [epoch for epoch, start in state.snapshot.epochs if start <= before]
        return cls(EntryId(epochs[-1], Offset(before)) if epochs else NO_ENTRY, disk.records)

    @property
    def first(self) -> int:
        return self.base.offset + 1

    @property
    def end(self) -> int:
        return self.base.offset + len(self.entries)

    @property
    def head(self) -> EntryId:
        return EntryId(Epoch(self.epoch_at(self.end)), Offset(self.end))

    def epoch_at(self, offset: int) -> int:
        """Return the epoch at an offset; 0 where there is no entry, or it is no longer known."""
        index = offset - self.base.offset - 1
        if 0 <= index < len(self.entries):
            return self.entries[index].epoch
        return self.base.epoch if index == -1 else 0

    def entry_at(self, offset: int) -> Entry:
        return self.entries[offset - self.base.offset - 1]

    def between(self, first: int, last: int) -> list[Entry]:
        assert self.first <= first, f"entries from {first} on are wanted, but the log starts at {self.first}"
        assert last <= self.end, f"entries up to {last} are wanted, but the log ends at {self.end}"
        return self.entries[first - self.first : last + 1 - self.first]

    def append(self, first: int, entries: Sequence[Entry]) -> None:
        assert first == self.end + 1, f"a hole: {first} behind {self.end}"
        self.entries += entries

    def truncate(self, to: int) -> None:
        assert self.base.offset <= to <= self.end, (self.base, to, self.end)
        del self.entries[to - self.base.offset :]

    def trim(self, first: int) -> None:
        if first > self.first:
            epoch = self.epoch_at(first - 1)
            del self.entries[: first - self.first]
            self.base = EntryId(Epoch(epoch), Offset(first - 1))

    def reset(self, base: EntryId) -> None:
        self.base = base
        self.entries.clear()


def is_replaced(disk: SimDisk) -> bool:
    """Has a snapshot taken the place of the records, although they are still there? It counts when it is saved."""
    head = disk.state.snapshot.head
    if not disk.records or head.offset < disk.first:
        return False
    return bool(head.offset > disk.last or disk.records[head.offset - disk.first].epoch != head.epoch)


def durable_epoch_at(disk: SimDisk, offset: int) -> int:
    """Return the epoch of the entry found at `offset` after a crash now; 0 for none, or before the log."""
    head = disk.state.snapshot.head
    if disk.first <= offset <= disk.last and not is_replaced(disk):
        epoch: int = disk.records[offset - disk.first].epoch
        return epoch
    return head.epoch if offset == head.offset else 0


def durable_head(disk: SimDisk) -> EntryId:
    """The last id which would be found after a crash now."""
    if not disk.records or is_replaced(disk):
        head: EntryId = disk.state.snapshot.head
        return head
    return EntryId(disk.records[-1].epoch, Offset(disk.last))
