"""Hints: the parts of a recovery log that built the live files. A playback skips the rest of the log.

A `HintSegment` is a run of operations by one author that changed a file. A playback needs only the segments of the live
files, joined where they overlap, and pruning keeps exactly these. From the `LogPoint` after them a playback reads
everything.
"""

from collections.abc import Iterable

import msgspec

from penstock.consumers.core.recoverylog.recorded_op import Author
from penstock.kernel.codec import Codec
from penstock.kernel.ids import Offset

__all__ = ["FnodeHints", "HintSegment", "Hints", "LogPoint", "joined"]


class HintSegment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Operations first_seq_no to last_seq_no of one author, within [first_offset, last_offset) of the log."""

    author: Author
    first_seq_no: int
    first_offset: Offset  # at or before the first operation
    first_checksum: int
    last_seq_no: int
    last_offset: Offset  # at or after the end of the last operation

    @property
    def point(self) -> "LogPoint":
        return LogPoint(self.first_seq_no, self.first_checksum, self.first_offset)


class LogPoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A place in the chain: the next operation's number, what its checksum must be, and from where to look for it."""

    seq_no: int
    checksum: int
    offset: Offset


class FnodeHints(msgspec.Struct, frozen=True, array_like=True):
    """A live file."""

    fnode: int
    segments: tuple[HintSegment, ...]


class Hints(msgspec.Struct, frozen=True, tag="hints-1"):
    """All a playback needs to know beforehand."""

    log: str
    live: tuple[FnodeHints, ...] = ()
    end: LogPoint = LogPoint(1, 0, Offset(0))

    def segments(self) -> list[HintSegment]:
        """Return the segments to read before the end, in order."""
        return joined(segment for live in self.live for segment in live.segments)

    def encode(self) -> bytes:
        return _codec.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> "Hints":
        """The hints, or MalformedFrame."""
        return _codec.decode(data)


_codec = Codec[Hints](Hints)


def joined(segments: Iterable[HintSegment]) -> list[HintSegment]:
    """Segments of one author which overlap or touch, as one; in the order of their numbers."""
    result: list[HintSegment] = []
    for segment in sorted(segments, key=lambda each: (each.first_seq_no, each.last_seq_no)):
        last = result[-1] if result else None
        if last is not None and last.author == segment.author and segment.first_seq_no <= last.last_seq_no + 1:
            result[-1] = msgspec.structs.replace(
                last,
                last_seq_no=max(last.last_seq_no, segment.last_seq_no),
                first_offset=min(last.first_offset, segment.first_offset),
                last_offset=max(last.last_offset, segment.last_offset),
            )
        else:
            assert last is None or segment.first_seq_no > last.last_seq_no, "two authors of one operation"
            result.append(segment)
    return result
