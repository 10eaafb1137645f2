"""The FSM of a recovery log: which operations count, and what files there are. Design: gazette.md 2.10.

An operation counts if it is exactly the next: its number, its checksum over all before it, and, while hints last, its
author. So however many processes believed they were the only author, and however their operations mix, only one chain
of them counts; other operations, by zombies, are skipped. What always holds:

- Numbers of counted operations rise by one, but for jumps which the hints name.
- A path leads to one file; a file without paths is gone, with its segments.
- Only files which the hints name come out of the part which they cover; of all others there, nothing is kept.
"""

from enum import Enum

import msgspec

from penstock.consumers.core.recoverylog.hints import FnodeHints, Hints, HintSegment, LogPoint
from penstock.consumers.core.recoverylog.recorded_op import (
    Handoff,
    RecordedCreate,
    RecordedLink,
    RecordedOp,
    RecordedWrite,
    Unlink,
)
from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import Offset

__all__ = ["Fnode", "OperationVerdict", "RecoveryFsm"]

UNKNOWN_END = Offset(-1)


class OperationVerdict(Enum):
    """What became of an operation."""

    APPLIED = "applied"
    UNTRACKED = "untracked"  # it counts, but its file is not alive in the end
    WRONG_SEQ_NO = "wrong-seq-no"
    WRONG_CHECKSUM = "wrong-checksum"
    WRONG_AUTHOR = "wrong-author"

    @property
    def counts(self) -> bool:
        return self in (OperationVerdict.APPLIED, OperationVerdict.UNTRACKED)


class Fnode(msgspec.Struct, eq=False):
    """A file: its paths, and the segments of the log within which it was touched."""

    paths: list[str]
    segments: list[HintSegment]


class RecoveryFsm:
    """The state after the last operation that counted."""

    def __init__(self, hints: Hints) -> None:
        self.log = hints.log
        self.fnodes: dict[int, Fnode] = {}
        self.paths: dict[str, int] = {}
        self._hinted = {live.fnode for live in hints.live}
        self._segments = hints.segments()[::-1]  # still to come; the next one is the last of the list
        self._end: LogPoint | None = hints.end  # where the hints end; None: that point has passed
        self.next = LogPoint(0, 0, Offset(0))
        self._jump()

    @property
    def is_hinted(self) -> bool:
        """Is there more which the hints cover?"""
        return self._end is not None

    @property
    def segment(self) -> HintSegment | None:
        """The segment which is being read, while hints last."""
        return self._segments[-1] if self._segments else None

    def apply(self, recorded: RecordedOp, begin: Offset, end: Offset, next_checksum: int) -> OperationVerdict:
        """Take an operation at [begin, end) of the log."""
        if recorded.seq_no != self.next.seq_no:
            return OperationVerdict.WRONG_SEQ_NO
        if recorded.checksum != self.next.checksum:
            return OperationVerdict.WRONG_CHECKSUM
        segment = self.segment
        if segment is not None and recorded.author != segment.author:
            return OperationVerdict.WRONG_AUTHOR
        is_tracked = self._apply(recorded, begin, end)
        self.next = LogPoint(recorded.seq_no + 1, next_checksum, end)
        if segment is not None and recorded.seq_no == segment.last_seq_no:
            self._segments.pop()
            self._jump()
        return OperationVerdict.APPLIED if is_tracked else OperationVerdict.UNTRACKED

    def _jump(self) -> None:
        """Jump to the next segment of the hints, or to their end."""
        if self._segments:
            self.next = self._segments[-1].point
        elif self._end is not None:
            self.next, self._end = self._end, None

    # operations

    def _apply(self, recorded: RecordedOp, begin: Offset, end: Offset) -> bool:
        """Change what there is. False: it is about a file which is not alive in the end."""
        op = recorded.op
        if isinstance(op, RecordedWrite):  # nearly all are
            written = self.fnodes.get(op.fnode)
            if written is not None:
                self._touch(written, recorded, begin, end)
            return written is not None
        if isinstance(op, Handoff):
            return True
        fnode = recorded.seq_no if isinstance(op, RecordedCreate) else op.fnode
        if isinstance(op, RecordedCreate) and self._is_wanted(fnode):
            self.fnodes[fnode] = Fnode([], [])
        if fnode not in self.fnodes:
            return False
        match op:
            case RecordedCreate(path) | RecordedLink(_, path):
                self._link(fnode, path)
            case Unlink(_, path):
                self._unlink(fnode, path)
        if fnode in self.fnodes:
            self._touch(self.fnodes[fnode], recorded, begin, end)
        return True

    def _is_wanted(self, fnode: int) -> bool:
        return fnode in self._hinted or not self.is_hinted

    def _link(self, fnode: int, path: str) -> None:
        if path in self.paths:
            raise MalformedFrame(f"{self.log}: {path} is linked already, to file {self.paths[path]}")
        self.paths[path] = fnode
        self.fnodes[fnode].paths.append(path)

    def _unlink(self, fnode: int, path: str) -> None:
        if self.paths.get(path) != fnode:
            raise MalformedFrame(f"{self.log}: {path} does not lead to file {fnode}")
        del self.paths[path]
        self.fnodes[fnode].paths.remove(path)
        if not self.fnodes[fnode].paths:
            del self.fnodes[fnode]

    def _touch(self, file: Fnode, recorded: RecordedOp, begin: Offset, end: Offset) -> None:
        last = file.segments[-1] if file.segments else None
        if last is not None and last.author == recorded.author:
            longer = msgspec.structs.replace(last, last_seq_no=recorded.seq_no, last_offset=end)
            file.segments[-1] = longer
        else:
            file.segments.append(
                HintSegment(recorded.author, recorded.seq_no, begin, recorded.checksum, recorded.seq_no, end)
            )

    # hints

    def settle(self, end: Offset) -> None:
        """Every operation so far ends at or before this offset of the log."""
        for file in self.fnodes.values():
            file.segments = [
                msgspec.structs.replace(segment, last_offset=end) if segment.last_offset == UNKNOWN_END else segment
                for segment in file.segments
            ]
        self.next = LogPoint(self.next.seq_no, self.next.checksum, end)

    def hints(self) -> Hints:
        """Hints to this state. Offsets must be settled."""
        live = [FnodeHints(fnode, tuple(self.fnodes[fnode].segments)) for fnode in sorted(self.fnodes)]
        hints = Hints(self.log, tuple(live), self.next)
        assert all(segment.last_offset != UNKNOWN_END for segment in hints.segments()), "settle the offsets first"
        return hints

    def check(self) -> None:
        """The invariants."""
        assert {path for file in self.fnodes.values() for path in file.paths} == set(self.paths)
        for fnode, file in self.fnodes.items():
            assert file.paths, "a file without paths is gone"
            assert all(self.paths[path] == fnode for path in file.paths)
            assert file.segments[0].first_seq_no == fnode, "its first operation made it"
            numbers = [number for each in file.segments for number in (each.first_seq_no, each.last_seq_no)]
            assert numbers == sorted(numbers)
            assert numbers[-1] < self.next.seq_no or self.is_hinted
