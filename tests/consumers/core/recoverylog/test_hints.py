import pytest

from penstock.consumers.core.recoverylog.hints import FnodeHints, Hints, HintSegment, LogPoint, joined
from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import Offset


def segment(first: int, last: int, author: int = 1) -> HintSegment:
    return HintSegment(author, first, Offset(first * 10), first * 100, last, Offset(last * 10 + 10))


def test_segments_of_one_author_which_overlap_or_touch_are_one() -> None:
    assert joined([segment(5, 9), segment(1, 3), segment(4, 6)]) == [segment(1, 9)]
    assert joined([segment(1, 9), segment(2, 3)]) == [segment(1, 9)]
    assert joined([segment(1, 3), segment(5, 6)]) == [segment(1, 3), segment(5, 6)]
    assert joined([segment(1, 3), segment(4, 6, author=2)]) == [segment(1, 3), segment(4, 6, author=2)]


def test_two_authors_of_one_operation_are_a_defect() -> None:
    with pytest.raises(AssertionError, match="two authors"):
        joined([segment(1, 3), segment(3, 6, author=2)])


def test_hints_survive_their_encoding() -> None:
    hints = Hints("log", (FnodeHints(1, (segment(1, 3), segment(4, 6, author=2))),), LogPoint(7, 8, Offset(9)))
    assert Hints.decode(hints.encode()) == hints
    with pytest.raises(MalformedFrame):
        Hints.decode(hints.encode()[:-1])
