"""Lookout: how long a client which waits alone keeps its process awake, and when it does not."""

from collections.abc import Callable

import pytest

from penstock.plumbing.wire.lookout import PAUSE_MAX, SECONDS_MAX, Lookout


class Turns:
    """A loop of which every turn takes 10 µs."""

    def __init__(self) -> None:
        self.now = 100.0
        self.ready: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.ready.append(callback)

    def turn(self) -> bool:
        """One turn; was there anything to do?"""
        ready, self.ready = self.ready, []
        self.now += 0.000_01
        for callback in ready:
            callback()
        return bool(ready)

    def turns_left(self) -> int:
        return sum(1 for _ in iter(self.turn, False))


@pytest.fixture
def loop() -> Turns:
    return Turns()


def of(loop: Turns, calls: set[int]) -> Lookout:
    return Lookout(loop, calls, lambda: loop.now)  # type: ignore[arg-type]


def test_it_looks_until_the_answer_is_there(loop: Turns) -> None:
    calls = {1}
    here = of(loop, calls)
    here.begin()
    assert [loop.turn() for _ in range(5)] == [True] * 5
    calls.clear()
    assert loop.turns_left() == 1  # which sees it
    assert here.pause == 0


def test_it_looks_no_longer_than_a_prompt_answer_takes(loop: Turns) -> None:
    here = of(loop, {1})
    here.begin()
    began_at = loop.now
    loop.turns_left()
    assert loop.now - began_at < SECONDS_MAX + 0.000_03


def test_a_request_behind_an_answered_one_is_looked_for_from_its_own_beginning(loop: Turns) -> None:
    calls = {1}
    here = of(loop, calls)
    here.begin()
    for _ in range(20):
        loop.turn()
    calls.clear()
    calls.add(2)
    here.begin()  # in the same turn as the answer
    assert [loop.turn() for _ in range(20)] == [True] * 20
    assert len(loop.ready) == 1  # one look at a time


def test_it_does_not_look_while_several_are_in_flight(loop: Turns) -> None:
    calls = {1}
    here = of(loop, calls)
    here.begin()
    calls.add(2)
    assert loop.turns_left() == 1


def test_each_answer_in_a_row_which_was_not_prompt_doubles_the_requests_that_are_not_looked_for(loop: Turns) -> None:
    calls = {1}
    here = of(loop, calls)
    pauses = []
    for _ in range(12):
        here.begin()
        loop.turns_left()
        pauses.append(here.pause)
        for _ in range(here.pause):
            here.begin()
            assert loop.ready == []
    assert pauses == [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, PAUSE_MAX, PAUSE_MAX]


def test_a_prompt_answer_makes_it_hopeful_again(loop: Turns) -> None:
    calls = {1}
    here = of(loop, calls)
    for _ in range(3):
        here.begin()
        loop.turns_left()
        here.pause = 0
    here.begin()
    calls.clear()
    loop.turns_left()
    calls.add(2)
    here.begin()
    loop.turns_left()
    assert here.pause == 2
