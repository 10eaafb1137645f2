"""I14 and I6 of one step, from its messages."""

import pytest

from penstock.journals.core.effects import ShowMark
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.point import Point
from penstock.kernel.ids import Incarnation, NodeId, Offset, Revision
from penstock_lab.sim.checkers.journal import JournalChecks
from penstock_lab.sim.checkers.journal_view import JournalContents, JournalView, Passed

OLD, NEW = PipelineEpoch(Revision(1), 1), PipelineEpoch(Revision(2), 1)
CONTENT = bytes([7]) * 5


class Stage:
    """A broker which holds one append of five bytes, above its mark."""

    def __init__(self) -> None:
        contents = JournalContents()
        self.checks = JournalChecks(1, contents)
        self.checks.lengths[7] = len(CONTENT)
        self.point = Point(Offset(0), Offset(5), contents.sum_of(CONTENT))
        self.before = self.view(OLD, 0, self.point)
        self.fragment = Fragment("a/journal", self.point.begin, self.point.end, self.point.sum)

    def view(self, epoch: PipelineEpoch, mark: int, *points: Point) -> JournalView:
        return JournalView(NodeId("b0"), 1, Incarnation("b0-1"), epoch, epoch, Offset(mark), points, None)

    def stepped(self, epoch: PipelineEpoch, mark: int, *marks: ShowMark) -> None:
        """The Fragment is handed over in a step which ends in this epoch with this mark."""
        after = self.view(epoch, mark, Point(Offset(5), Offset(5)))
        self.checks.stepped(self.before, after, Passed(marks, (self.fragment,)))


def test_a_fragment_may_be_handed_over_below_a_mark_of_its_epoch_which_the_step_passed() -> None:
    stage = Stage()
    stage.stepped(NEW, 5, ShowMark(Offset(5), OLD))
    assert stage.checks.marks == {OLD: 5}
    assert stage.checks.truth == dict.fromkeys(range(5), 7)


def test_a_mark_of_the_next_epoch_does_not_allow_it() -> None:
    with pytest.raises(AssertionError, match="I14: b0 uploads up to 5, and 0 is allowed"):
        Stage().stepped(NEW, 5, ShowMark(Offset(5), NEW))


def test_a_mark_moves_only_by_being_shown() -> None:
    stage = Stage()
    with pytest.raises(AssertionError, match="I6: b0 has mark 5, and has shown 0"):
        stage.checks.stepped(stage.before, stage.view(OLD, 5, stage.point), Passed())
