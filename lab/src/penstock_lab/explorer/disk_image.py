"""The content of a node's disk, and the writes on their way to it, as one value.

Durable effects are done one by one, in order. A crash may come between any two of them, and inside a `Persist` between
any two records: a finished write is found again, the rest is lost.
"""

from collections.abc import Iterator

import msgspec

from penstock.kernel.effects import Effect, Event, Persist, Persisted, SaveState, StateSaved, TruncateLog
from penstock.kernel.ids import EntryId, Epoch, Lsn, Offset
from penstock.quorum.records.entry import Entry
from penstock.quorum.records.state import NodeState

__all__ = ["DiskImage"]


class DiskImage(msgspec.Struct, frozen=True):
    """A disk. Never changed: each method returns another one."""

    state: NodeState
    first: int = 1  # the offset of the first record
    records: tuple[Entry, ...] = ()
    pending: tuple[Effect, ...] = ()
    snapshots: tuple[tuple[EntryId, bytes], ...] = ()

    @property
    def last(self) -> int:
        """The last durable offset."""
        return self.first + len(self.records) - 1

    @property
    def head(self) -> EntryId:
        """The id a fence answer would carry, were the node to restart now."""
        first, entries = self.log()
        if entries:
            return EntryId(entries[-1].epoch, Offset(first + len(entries) - 1))
        return self.state.snapshot.head

    def log(self) -> tuple[int, tuple[Entry, ...]]:
        """The durable log as a restart would read it: entries which a snapshot has replaced do not count."""
        snapshot = self.state.snapshot.head
        if snapshot.offset == 0:
            return self.first, self.records
        if self.first <= snapshot.offset <= self.last:
            is_kept = self.records[snapshot.offset - self.first].epoch == snapshot.epoch
        else:
            is_kept = self.first == snapshot.offset + 1 and bool(self.records)
        return (self.first, self.records) if is_kept else (snapshot.offset + 1, ())

    def holds(self, epoch: Epoch, offset: int) -> bool:
        """Is the entry with this id durable here, or part of the snapshot?"""
        first, entries = self.log()
        if first <= offset < first + len(entries):
            return entries[offset - first].epoch == epoch
        return offset < first

    # writing

    def put(self, effect: Effect) -> "DiskImage":
        return msgspec.structs.replace(self, pending=(*self.pending, effect))

    def finish_one(self) -> tuple["DiskImage", Event | None]:
        """The oldest write is durable; the event says so to its node."""
        done, event = self._do(self.pending[0])
        return msgspec.structs.replace(done, pending=self.pending[1:]), event

    def written(self) -> "DiskImage":
        """Return the image after everything pending is done."""
        image = self
        for effect in self.pending:
            image, _ = image._do(effect)
        return msgspec.structs.replace(image, pending=())

    def _do(self, effect: Effect) -> tuple["DiskImage", Event | None]:
        match effect:
            case Persist(first, records):
                start = self.first if self.records else first
                assert first == start + len(self.records), f"a hole: {first} behind {self.last}"
                image = msgspec.structs.replace(self, first=int(start), records=self.records + records)
                return image, Persisted(Lsn(image.last))
            case TruncateLog(lsn):
                assert self.first - 1 <= lsn <= self.last, (self.first, lsn, self.last)
                return msgspec.structs.replace(self, records=self.records[: lsn + 1 - self.first]), None
            case SaveState(state):
                return msgspec.structs.replace(self, state=state), StateSaved()
            case _:
                raise AssertionError(f"not a durable effect: {effect}")

    def trim(self, first: int) -> "DiskImage":
        if first <= self.first:
            return self
        return msgspec.structs.replace(self, first=first, records=self.records[first - self.first :])

    def keep_snapshot(self, head: EntryId, data: bytes) -> "DiskImage":
        kept = [each for each in self.snapshots if each[0] != head]
        return msgspec.structs.replace(self, snapshots=tuple(sorted([*kept, (head, data)])))

    def snapshot_at(self, head: EntryId) -> bytes | None:
        return dict(self.snapshots).get(head)

    # crashing

    def survivors(self) -> Iterator["DiskImage"]:
        """Every disk a crash may leave behind, each once."""
        seen: set[DiskImage] = set()
        for image in self._cuts():
            if image not in seen:
                seen.add(image)
                yield image

    def _cuts(self) -> Iterator["DiskImage"]:
        image = msgspec.structs.replace(self, pending=())
        yield image
        for effect in self.pending:
            if isinstance(effect, Persist):
                for count in range(1, len(effect.records)):
                    yield image._do(Persist(effect.first, effect.records[:count]))[0]
            image, _ = image._do(effect)
            yield image
