"""What the journal's checkers see of a broker: a picture of its replica between two steps, and the bytes behind sums.

Contents are named by their sums, as in the protocol itself: `JournalContents` remembers which bytes have which sum, so
a picture needs no bytes. Every append writes its own number, a byte, over and over: a byte of content says whose it is.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha1

import msgspec

from penstock.journals.core.effects import ShowMark, Upload
from penstock.journals.core.replica import Replica
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.fragment import EMPTY_SUM, Fragment, Sum
from penstock.journals.records.point import Point
from penstock.kernel.effects import Effect
from penstock.kernel.ids import Incarnation, NodeId, Offset

__all__ = ["JournalContents", "JournalView", "Passed", "passed_in", "view_of"]


class JournalView(msgspec.Struct, frozen=True):
    """A replica between two steps."""

    broker: NodeId
    run: int  # which life of the process
    incarnation: Incarnation
    epoch: PipelineEpoch
    promised: PipelineEpoch
    mark: Offset
    points: tuple[Point, ...]
    leads: PipelineEpoch | None  # the epoch of its pipeline, if that is certified

    @property
    def end(self) -> Offset:
        return self.points[-1].end

    def fragments(self) -> Iterator[Point]:
        """The newest point of each Fragment it holds."""
        for point, following in zip(self.points, (*self.points[1:], None), strict=True):
            if not point.is_empty and (following is None or following.begin != point.begin):
                yield point


class Passed(msgspec.Struct, frozen=True):
    """What a step went through which two pictures cannot show: one step may commit, roll, and begin another epoch."""

    marks: tuple[ShowMark, ...] = ()
    uploads: tuple[Fragment, ...] = ()


def passed_in(effects: Iterable[Effect]) -> Passed:
    marks = tuple(effect for effect in effects if isinstance(effect, ShowMark))
    return Passed(marks, tuple(effect.fragment for effect in effects if isinstance(effect, Upload)))


def view_of(replica: Replica, run: int) -> JournalView:
    spool, pipeline = replica.spool, replica.pipeline
    epoch, points = spool.counted()  # a reset that is not certified does not count
    leads = pipeline.epoch if pipeline is not None and pipeline.phase.value == "ready" else None
    return JournalView(
        replica.me,
        run,
        spool.incarnation,
        epoch,
        spool.promised,
        spool.mark,
        points,
        leads,
    )


class JournalContents:
    """Bytes by their sum."""

    def __init__(self) -> None:
        self._bytes: dict[Sum, bytes] = {EMPTY_SUM: b""}

    def sum_of(self, content: bytes) -> Sum:
        if not content:
            return EMPTY_SUM
        digest = sha1(content, usedforsecurity=False).digest()
        self._bytes[digest] = content
        return digest

    def __getitem__(self, sum_: Sum) -> bytes:
        return self._bytes[sum_]

    def held(self, view: JournalView) -> Iterator[tuple[int, int]]:
        """Every (offset, append) which a broker's Spool holds."""
        for point in view.fragments():
            yield from enumerate(self._bytes[point.sum], point.begin)
