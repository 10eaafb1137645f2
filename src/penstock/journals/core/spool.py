"""The Spool: a replica's transactional memory of the journal. Design: journals.md J3, J9, J11; gazette.md §2.3.

The core's Spool is logical: it knows lengths, sums and registers; the bytes live in the shell, which writes, cuts and
rolls its files as the effects say. A `Point` is an adopted boundary; the list of points from the mark up is the undo
list: a Spool can be trimmed to any of them, registers and sum included. A roll appends an empty point of a new
Fragment, and the old Fragment is complete when the mark has passed the roll. So everything above the mark can be taken
back, rolls too, and a Fragment which was handed to the store cannot.

What always holds: mark ≤ end; points never fall; nothing below the mark is trimmed; pending content is above `end` and
is dropped unless a commit proposal covers it exactly.
"""

from itertools import pairwise

import msgspec

from penstock.journals.core.effects import CutSpool, DropSpool, RollSpool, SetAside, ShowMark, Upload, WriteContent
from penstock.journals.records.epoch import NO_EPOCH, PipelineEpoch
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.head import HeadTable
from penstock.journals.records.point import Point
from penstock.journals.records.registers import NO_REGISTERS, Registers
from penstock.kernel.effects import Effect, SaveState
from penstock.kernel.ids import Incarnation, Offset, Revision
from penstock.keyspace.core.records import NO_REVISION

__all__ = ["Spool", "SpoolState", "length_of"]


class SpoolState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of a Spool is durable, if it is to survive a restart: written before anything is acknowledged."""

    incarnation: Incarnation
    create_revision: Revision
    epoch: PipelineEpoch
    promised: PipelineEpoch
    mark: Offset  # may be older than the mark that readers saw: after a restart it is a lower bound
    points: tuple[Point, ...]
    reset_from: PipelineEpoch | None = None  # the epoch before a reset which is not known to be certified


def length_of(content: object) -> int:
    """Bytes of a chunk, without a copy."""
    return content.nbytes if isinstance(content, memoryview) else len(content)  # type: ignore[arg-type]


class Spool:
    """One replica's Spool. Its effects go to `out`, in order."""

    def __init__(self, journal: str, incarnation: Incarnation, out: list[Effect], *, is_kept: bool) -> None:
        self.journal = journal
        self.incarnation = incarnation
        self.out = out
        self.is_kept = is_kept  # it survives a restart, so its state is saved before anything rests on it
        self.create_revision = NO_REVISION
        self.epoch = NO_EPOCH  # the last adopted sync
        self.promised = NO_EPOCH  # nothing older is applied or acknowledged any more
        self.mark = Offset(0)  # every replica has acknowledged everything below
        self.points = [Point(Offset(0), Offset(0))]
        self.start = Offset(0)  # where the last adopted sync began, in this run of the process
        self.reset_from: PipelineEpoch | None = None  # its epoch before a reset that may not be certified
        self.pending = 0  # bytes of content above `end`, not proposed yet

    @classmethod
    def recover(cls, journal: str, state: SpoolState, out: list[Effect]) -> "Spool":
        """Return a Spool restored from its durable state."""
        spool = cls(journal, state.incarnation, out, is_kept=True)
        spool.create_revision, spool.epoch, spool.promised = state.create_revision, state.epoch, state.promised
        spool.mark, spool.points, spool.reset_from = state.mark, list(state.points), state.reset_from
        spool.start = spool.end if state.reset_from is not None else spool.start
        return spool

    @property
    def head(self) -> Point:
        return self.points[-1]

    @property
    def end(self) -> Offset:
        return self.points[-1].end

    @property
    def registers(self) -> Registers:
        return self.points[-1].registers

    def fragment(self, point: Point) -> Fragment:
        return Fragment(self.journal, point.begin, point.end, point.sum, point.codec, path_postfix=point.path_postfix)

    def save(self) -> None:
        """Make what follows in `out` wait until this state is durable."""
        if self.is_kept:
            self.out.append(SaveState(self.state))

    @property
    def state(self) -> SpoolState:
        """Return all that must be durable for this Spool to come back as the same one."""
        return SpoolState(
            self.incarnation,
            self.create_revision,
            self.epoch,
            self.promised,
            self.mark,
            tuple(self.points),
            self.reset_from,
        )

    # content and proposals

    def write(self, content: object) -> None:
        self.pending += content.nbytes if type(content) is memoryview else length_of(content)
        self.out.append(WriteContent(content))

    def roll_back(self) -> None:
        """Drop content which no proposal covered."""
        if self.pending:
            self.pending = 0
            self.out.append(CutSpool(self.head))

    def adopts(self, point: Point, sum_: bytes) -> bool:
        """Return whether this proposal follows from our content; `sum_` is that of the Fragment with its pending
        content.
        """
        head = self.points[-1]
        if point.end == head.end:
            is_roll = point.begin == point.end
            return point == head or (is_roll and point.registers == head.registers)
        if self.pending == 0 or point.begin != head.begin or point.end != head.end + self.pending:
            return False
        return point.sum == sum_ and (point.codec, point.path_postfix) == (head.codec, head.path_postfix)

    def adopt(self, point: Point) -> None:
        """Take a proposal that `adopts` allowed: a commit, a roll, or a roll-back to the present point."""
        if point.end > self.points[-1].end:
            self.pending = 0
            self.points.append(point)
            return
        self.roll_back()
        if point != self.head:
            self._roll(point)

    def _roll(self, point: Point) -> None:
        if self.head.is_empty:
            self.points[-1] = point  # nothing is in it yet: it only gets another codec
        else:
            self.points.append(point)
        self.out.append(RollSpool(point))
        self._forget_below_mark()

    # the mark

    def advance_mark(self, mark: Offset) -> None:
        """Everything below is on every replica: show it, and release Fragments that end there."""
        points = self.points
        if mark > self.mark:
            assert mark <= points[-1].end, (mark, points[-1].end)
            self.mark = mark
            self.out.append(ShowMark(mark, self.epoch))
        if mark >= self.start:
            self.reset_from = None  # its epoch is certified
        if len(points) > 1:
            self._forget_below_mark()

    def _forget_below_mark(self) -> None:
        points, mark = self.points, self.mark
        while len(points) > 1 and points[1].end <= mark:
            if points[0].begin != points[1].begin:
                self._forget_first()
            else:
                del points[0]  # the Fragment continues

    def _forget_first(self) -> None:
        first = self.points.pop(0)
        if first.begin != self.points[0].begin and first.begin != first.end:
            self.out.append(Upload(self.fragment(first)))

    # synchronizing

    def point_at(self, offset: Offset) -> Point | None:
        """The newest point with that end."""
        return next((point for point in reversed(self.points) if point.end == offset), None)

    def trim(self, offset: Offset) -> None:
        """Cut to an adopted boundary at or above the mark."""
        assert offset >= self.mark, (offset, self.mark)
        if self.end > offset or self.pending:
            while self.points[-1].end > offset:
                self.points.pop()
            assert self.end == offset, (self.end, offset)
            self.pending = 0
            self.out.append(CutSpool(self.head))

    def fits(self, point: Point, head_epoch: PipelineEpoch) -> bool:
        """Return whether a sync may continue from this point here. A member that is no participant, or never had it,
        begins a new Fragment there.
        """
        if point.is_empty or not self._takes_part(point, head_epoch):
            return True
        return self.point_at(point.end) == point

    def synchronize(self, epoch: PipelineEpoch, point: Point, table: HeadTable, head_epoch: PipelineEpoch) -> None:
        """Adopt a sync: continue after the point, or begin a new Fragment there; all content above is taken back."""
        self.roll_back()
        self.undo_reset()
        if self._takes_part(point, head_epoch):
            self.trim(point.end)
            if self.head != point:
                self._roll(point)
        else:
            self._hand_over(self.settle(table))
            self.points = [point.rolled()]
            self.out.append(RollSpool(self.head))
        self.epoch, self.start = epoch, point.end

    def reset(self, epoch: PipelineEpoch, point: Point, table: HeadTable) -> None:
        """Adopt a reset. Until it is certified it counts for nothing: the earlier content stays, to return to (306)."""
        self.roll_back()
        self.undo_reset()
        self.reset_from = self.epoch
        if table.first_after(self.epoch) is not None:
            self.settle(table)
        self.points.append(point)
        self.out.append(RollSpool(point))
        self.epoch, self.start = epoch, point.end

    def undo_reset(self) -> None:
        """Return to the state before a reset whose certification is unknown."""
        if self.reset_from is not None:
            self.points.pop()
            self.epoch, self.reset_from = self.reset_from, None
            self.start = self.end
            self.out.append(CutSpool(self.head))

    def see_certified(self, table: HeadTable) -> None:
        """Let a reset count that the head record lists: a restart may have come before the mark said so (306)."""
        if self.reset_from is not None and any(entry.epoch == self.epoch for entry in table.entries):
            self.reset_from = None

    def counted(self) -> tuple[PipelineEpoch, tuple[Point, ...]]:
        """The epoch and the points which count in a sync."""
        if self.reset_from is not None:
            return self.reset_from, tuple(self.points[:-1])
        return self.epoch, tuple(self.points)

    def _takes_part(self, point: Point, head_epoch: PipelineEpoch) -> bool:
        return self.epoch >= head_epoch and self.point_at(point.end) is not None

    def settle(self, table: HeadTable) -> Offset:
        """Decide about all content by the first later epoch: everything below its start is kept, the rest is not.

        Without such an entry only the content below the mark is certain. If it was dropped from the table, the answer
        is unknown.
        """
        keep = self.mark
        entry = table.first_after(self.epoch)
        if entry is not None and not table.has_forgotten(self.epoch):
            keep = max(keep, min(self.end, entry.start))
        elif entry is not None and self.end > max(keep, self.points[0].begin):
            self.out.append(SetAside(self.fragment(self.head), keep))
        kept = next((point for point in reversed(self.points) if point.end <= keep), None)
        if kept is not None:
            self.trim(kept.end)
        return keep

    def close(self, table: HeadTable) -> None:
        """This broker no longer serves the journal: hand over the decided content, and keep nothing."""
        self.roll_back()
        self.undo_reset()
        self._hand_over(self.settle(table))
        self.start = self.end  # all of it is decided
        if not self.head.is_empty:
            self.points = [self.head.rolled()]
            self.out.append(RollSpool(self.head))

    def _hand_over(self, keep: Offset) -> None:
        """Let every Fragment go to the store which ends at or below `keep`."""
        while len(self.points) > 1:
            self._forget_first()
        if not self.head.is_empty and self.end <= keep:
            self.out.append(Upload(self.fragment(self.head)))

    def discard(self, incarnation: Incarnation, create_revision: Revision) -> None:
        """Drop everything: the journal was deleted, or has another life (J15)."""
        self.incarnation, self.create_revision = incarnation, create_revision
        self.epoch = self.promised = NO_EPOCH
        self.mark, self.start, self.pending, self.reset_from = Offset(0), Offset(0), 0, None
        self.points = [Point(Offset(0), Offset(0), registers=NO_REGISTERS)]
        self.out.append(DropSpool())

    def check(self) -> None:
        """Assert every invariant."""
        assert self.epoch <= self.promised, (self.epoch, self.promised)
        assert self.mark <= self.end, (self.mark, self.end)
        assert self.pending >= 0
        for before, after in pairwise(self.points):
            assert before.end <= after.end, self.points
            assert after.end > self.mark, (self.mark, self.points)
            assert after.begin in (before.begin, before.end) or after.is_empty, self.points
