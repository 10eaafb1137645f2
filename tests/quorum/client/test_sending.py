"""What an answer to one copy says of the transaction."""

import pytest

from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Offset
from penstock.quorum.client.sending import Answer, Next, Sending
from penstock.quorum.records.answers import Cause, Fate
from penstock.quorum.records.effects import MAJORITY

HERE = EntryId(Epoch(1), Offset(9))
NOT_WRITTEN = [
    Answer(Fate.NOT_LEADER, NO_ENTRY),
    Answer(Fate.OVERLOADED, NO_ENTRY),
    Answer(Fate.INVALID, NO_ENTRY),
    Answer(Fate.ABORTED, NO_ENTRY, cause=Cause.NO_ROOM),
    Answer(Fate.ABORTED, NO_ENTRY, cause=Cause.FENCED),
]


def sending(*, copies: int = 1) -> Sending:
    one = Sending(5, b"x", is_sync=True, level=MAJORITY, rolls_back=False)
    for number in range(copies):
        one.copy(number, 1_000, highest=4)
    return one


def test_a_first_copy_in_order_is_no_repeat() -> None:
    one = Sending(5, b"x", is_sync=True, level=7, rolls_back=True)
    first = one.copy(1, 1_000, highest=4)
    again = one.copy(2, 0, highest=9)
    assert (first.is_repeat, again.is_repeat) == (False, True)
    assert (again.level, again.rolls_back, again.timeout_ms) == (7, True, 1), "as the first, for the time that is left"
    late = Sending(5, b"x", is_sync=True, level=MAJORITY, rolls_back=False)
    assert late.copy(3, 1_000, highest=6).is_repeat, "a higher number was sent: the window may have passed this one"


@pytest.mark.parametrize("answer", NOT_WRITTEN)
def test_nothing_written_of_the_only_copy_is_the_end_when_time_is_over(answer: Answer) -> None:
    one = sending()
    assert one.heard(answer, is_late=True) is Next.TOLD
    assert not one.may_be_written


@pytest.mark.parametrize("answer", NOT_WRITTEN)
def test_nothing_written_of_a_later_copy_says_nothing_of_the_first(answer: Answer) -> None:
    """Q-14: "written: no" for an append which commits."""
    assert sending(copies=2).heard(answer, is_late=True) is Next.UNKNOWN


@pytest.mark.parametrize(
    "answer", [NOT_WRITTEN[0], NOT_WRITTEN[1], NOT_WRITTEN[4], Answer(Fate.INDETERMINATE, HERE, cause=Cause.FENCED)]
)
@pytest.mark.parametrize("copies", [1, 2])
def test_who_lost_its_leader_tries_again_while_there_is_time(answer: Answer, copies: int) -> None:
    assert sending(copies=copies).heard(answer, is_late=False) is Next.AGAIN


def test_a_refused_first_copy_is_as_if_it_was_never_sent() -> None:
    one = sending()
    one.heard(NOT_WRITTEN[0], is_late=False)
    one.copy(2, 1_000, highest=5)
    assert one.heard(NOT_WRITTEN[1], is_late=True) is Next.TOLD


def test_a_quorum_that_came_too_late_leaves_it_unknown() -> None:
    assert sending().heard(Answer(Fate.INDETERMINATE, HERE, cause=Cause.QUORUM_TIMEOUT), is_late=False) is Next.UNKNOWN


@pytest.mark.parametrize("fate", [Fate.COMMITTED, Fate.ACKNOWLEDGED, Fate.ABORTED, Fate.EXPIRED])
def test_what_the_leader_says_with_an_offset_is_about_the_transaction(fate: Fate) -> None:
    assert sending(copies=2).heard(Answer(fate, HERE), is_late=False) is Next.TOLD
