import pytest

from penstock.consumers.core.recoverylog.hints import FnodeHints, Hints, HintSegment, LogPoint
from penstock.consumers.core.recoverylog.pruning import Extent, plan
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Offset

FRAGMENTS = [Extent(Offset(begin), Offset(begin + 100)) for begin in range(0, 500, 100)]


def hints(end: int, *extents: tuple[int, int]) -> Hints:
    segments = [HintSegment(1, n * 10 + 1, Offset(b), 0, n * 10 + 2, Offset(e)) for n, (b, e) in enumerate(extents)]
    return Hints("log", (FnodeHints(1, tuple(segments)),), LogPoint(99, 0, Offset(end)))


def gone(*all_hints: Hints) -> list[int]:
    return [extent.begin for extent in plan("log", FRAGMENTS, all_hints).gone]


def test_a_fragment_which_a_live_segment_reaches_into_stays() -> None:
    assert gone(hints(500, (120, 180))) == [0, 200, 300, 400]
    assert gone(hints(500, (199, 201))) == [0, 300, 400]
    assert gone(hints(500, (100, 200))) == [0, 200, 300, 400]


def test_everything_from_the_end_of_the_hints_on_stays() -> None:
    assert gone(hints(250)) == [0, 100]


def test_every_hint_has_a_say_and_none_says_keep_all() -> None:
    assert gone(hints(500, (120, 180)), hints(300, (20, 30))) == [200]
    assert gone() == []


def test_the_plan_says_how_much_would_go() -> None:
    assert plan("log", FRAGMENTS, [hints(500, (120, 180))]).bytes == 400


def test_hints_of_another_log_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="say nothing about other"):
        plan("other", FRAGMENTS, [hints(500)])
