"""Turns, deadlines and back-off: small machines of a replica."""

from types import SimpleNamespace
from typing import Any

from penstock.journals.core.turns import Turns
from penstock.kernel.deadlines import RequestDeadlines
from penstock.kernel.effects import Effect, SetTimer
from penstock.kernel.ids import Instant, RequestId
from penstock.kernel.retrying import RetryTimer


def append() -> Any:
    return SimpleNamespace(is_queued=False)


def test_first_come_first_served() -> None:
    turns = Turns()

    first, second, third = append(), append(), append()
    assert turns.acquire(first)
    assert not turns.acquire(second)
    assert not turns.acquire(third)
    turns.release(second)
    assert turns.owner == first, "who does not own it cannot release it"
    turns.release(first)
    assert not turns.acquire(third), "second stands before it"
    assert turns.acquire(second)
    turns.leave(third)
    turns.release(second)
    turns.check()
    assert not turns.queue


def test_one_timer_for_all_deadlines() -> None:
    deadlines, out = RequestDeadlines(), list[Effect]()
    alive = {RequestId(number): None for number in (1, 2, 3)}
    for at, request in ((50, 1), (30, 2), (40, 3)):
        deadlines.add(Instant(at), RequestId(request), alive, out)
    assert out == [SetTimer("deadline", Instant(50)), SetTimer("deadline", Instant(30))]
    out.clear()
    del alive[RequestId(3)]
    assert deadlines.take_due(Instant(35), alive, out) == [2]
    assert out == [SetTimer("deadline", Instant(50))], "who has ended needs no timer"


def test_deadlines_of_ended_appends_do_not_pile_up() -> None:
    deadlines, out = RequestDeadlines(), list[Effect]()
    for number in range(10_000):
        deadlines.add(Instant(10**9), RequestId(number), {RequestId(number): None}, out)
    assert len(deadlines._heap) < 200


def test_waits_grow_and_are_told_once() -> None:
    out: list[Effect] = []
    backoff = RetryTimer(10, 30, out)
    assert not backoff.is_waiting(Instant(0))
    for until in (10, 20, 30, 30):
        backoff.extend(Instant(0))
        assert backoff.until == until
    assert backoff.is_waiting(Instant(5))
    assert backoff.is_waiting(Instant(6))
    assert out == [SetTimer("retry", Instant(30))]
    backoff.reset(Instant(6))
    assert not backoff.is_waiting(Instant(6))
