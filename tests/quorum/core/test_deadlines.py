from penstock.kernel.ids import Instant, RequestId
from penstock.quorum.core.deadlines import Deadlines
from penstock.quorum.core.limbo_queue import LimboEntry, LimboState


def waiter(request: int) -> LimboEntry:
    return LimboEntry(RequestId(request), None, 1)


def test_waiters_end_in_the_order_of_their_deadlines() -> None:
    deadlines = Deadlines(10)
    slow, quick, later = waiter(1), waiter(2), waiter(3)
    deadlines.add([slow], deadlines.rounded(95), Instant(0))
    deadlines.add([quick], deadlines.rounded(20), Instant(5))
    deadlines.add([later], deadlines.rounded(20), Instant(30))
    assert [entry.deadline for entry in (slow, quick, later)] == [100, 25, 50]
    deadlines.check([slow, quick, later])
    assert deadlines.earliest() == 25
    assert deadlines.expired(Instant(24)) == []
    assert deadlines.expired(Instant(60)) == [quick, later]
    assert deadlines.expired(Instant(100)) == [slow]
    assert deadlines.earliest() is None


def test_a_timeout_is_rounded_up_to_its_grain() -> None:
    deadlines = Deadlines(10)
    assert [deadlines.rounded(timeout) for timeout in (1, 10, 11, 100)] == [10, 10, 20, 100]


def test_who_was_answered_or_left_never_expires() -> None:
    deadlines = Deadlines(10)
    answered, detached, waiting = waiter(1), waiter(2), waiter(3)
    deadlines.add([answered, detached, waiting], 10, Instant(0))
    answered.state = LimboState.ANSWERED
    detached.request = None
    deadlines.check([waiting])
    assert deadlines.expired(Instant(10)) == [waiting]


def test_what_is_over_does_not_pile_up() -> None:
    deadlines = Deadlines(10)
    for moment in range(1000):
        entry = waiter(moment)
        deadlines.add([entry], 1000, Instant(moment))
        entry.state = LimboState.ANSWERED
    assert sum(len(fifo) for fifo in deadlines._fifos.values()) == 1
    assert deadlines.earliest() is None
    assert deadlines._fifos == {}


def test_a_copy_has_the_same_deadlines_over_other_entries() -> None:
    deadlines = Deadlines(10)
    mine, theirs = waiter(1), waiter(1)
    deadlines.add([mine], 10, Instant(0))
    theirs.deadline = mine.deadline
    twin = deadlines.copy(lambda _: theirs)
    assert twin.expired(Instant(10)) == [theirs]
    assert deadlines.expired(Instant(10)) == [mine]
