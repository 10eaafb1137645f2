"""One timer for many deadlines: it fires for the newest one, at its time, and seldom has to be set."""

import heapq
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from penstock.plumbing.http.protocol.deadline import Deadline


class Clock:
    """The part of an event loop that a deadline uses, with a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers_set = 0
        self._timers: list[tuple[float, int, Timer]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> "Timer":
        timer = Timer(call)
        self.timers_set += 1
        heapq.heappush(self._timers, (when, self.timers_set, timer))
        return timer

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            self.now, _, timer = heapq.heappop(self._timers)
            if not timer.is_cancelled:
                timer.call()
        self.now = end


class Timer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


def deadline() -> tuple[Clock, Deadline]:
    clock = Clock()
    return clock, Deadline(cast("Any", clock))


def test_a_thousand_requests_set_one_timer() -> None:
    clock, one = deadline()
    for _ in range(1000):
        one.set(10_000, lambda: None)
        one.clear()
        clock.advance(0.001)
    assert clock.timers_set == 1


def test_it_passes_at_its_own_time_and_not_at_an_earlier_ones() -> None:
    clock, one = deadline()
    passed: list[str] = []
    one.set(10, lambda: passed.append("early"))
    one.set(100, lambda: passed.append("late"))
    clock.advance(0.099)
    assert passed == []
    clock.advance(0.002)
    assert passed == ["late"]
    clock.advance(1)
    assert passed == ["late"], "once"


def test_an_earlier_one_passes_in_time() -> None:
    clock, one = deadline()
    passed: list[str] = []
    one.set(100_000, lambda: passed.append("late"))
    one.set(10, lambda: passed.append("early"))
    clock.advance(0.011)
    assert passed == ["early"]


def test_none_passes_after_the_end() -> None:
    clock, one = deadline()
    passed: list[str] = []
    one.set(10, lambda: passed.append("x"))
    one.close()
    clock.advance(1)
    assert passed == []


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 60), st.booleans()), max_size=30))
def test_it_is_as_a_timer_for_each(steps: list[tuple[int, int, bool]]) -> None:
    """Against the plain way: a timer that is cancelled and set again each time."""
    clock, one = deadline()
    passed: list[int] = []
    expected: list[int] = []
    due: tuple[int, int] | None = None  # when, in ms, and which
    now = 0
    for number, (milliseconds, advance, clears) in enumerate(steps):
        one.set(milliseconds, partial(passed.append, number))
        due = (now + milliseconds, number)
        if clears:
            one.clear()
            due = None
        clock.advance(advance / 1000 + 1e-9)
        now += advance
        if due is not None and due[0] <= now:
            expected.append(due[1])
            due = None
        assert passed == expected
