"""The search itself, on models whose states can be counted in another way."""

import os
from math import comb

import pytest
from tests.lab.explorer.published import Published

from penstock_lab.explorer.search import SearchOutcome, Violation, search

Step = tuple[str, tuple[int, int] | Violation]


class Grid:
    """Steps right and up, to a corner. Every state is reached by many ways; (3, 2) may be forbidden."""

    def __init__(self, size: int, *, is_forbidden: bool = False) -> None:
        self.size, self.is_forbidden = size, is_forbidden

    def starts(self) -> list[tuple[int, int]]:
        return [(0, 0)]

    def steps(self, state: tuple[int, int]) -> list[Step]:
        x, y = state
        found: list[Step] = []
        for action, after in (("right", (x + 1, y)), ("up", (x, y + 1))):
            if self.is_forbidden and after == (3, 2):
                found.append((action, Violation("trodden upon")))
            elif max(after) <= self.size:
                found.append((action, after))
        return found


def test_every_state_is_visited_once() -> None:
    outcome = search(Grid(9))
    assert (outcome.states, outcome.transitions, outcome.depth) == (100, 180, 18)
    assert outcome.is_exhausted
    assert outcome.ends_well


def test_the_schedule_to_a_violation_is_a_shortest_one() -> None:
    outcome = search(Grid(9, is_forbidden=True))
    actions = [action for action, _ in outcome.schedule]
    assert outcome.violation == "trodden upon"
    assert sorted(actions) == ["right"] * 3 + ["up"] * 2
    assert [state for _, state in outcome.schedule][-1] is None
    assert not outcome.is_exhausted


def test_a_bound_stops_the_search_and_says_so() -> None:
    outcome = search(Grid(99), states_max=500)
    assert 500 <= outcome.states <= 501
    assert not outcome.is_exhausted


def test_who_watches_may_end_it() -> None:
    seen: list[int] = []

    def goes_on(outcome: SearchOutcome[tuple[int, int]]) -> bool:
        seen.append(outcome.states)
        return False

    assert not search(Grid(99), goes_on=goes_on).is_exhausted
    assert seen == [5000]


class BadStart(Grid):
    def starts(self) -> list[tuple[int, int]]:
        raise Violation("wrong from the start")


def test_a_start_may_be_the_violation() -> None:
    outcome = search(BadStart(1))
    assert (outcome.violation, outcome.states, outcome.schedule) == ("wrong from the start", 0, [])


class Subsets:
    """All ways to draw k of n: states are sets, and there are as many as binomials say."""

    def __init__(self, count: int, size: int) -> None:
        self.count, self.size = count, size

    def starts(self) -> list[frozenset[int]]:
        return [frozenset()]

    def steps(self, state: frozenset[int]) -> list[tuple[int, frozenset[int] | Violation]]:
        if len(state) == self.size:
            return []
        return [(each, state | {each}) for each in range(self.count) if each not in state]


def test_states_are_counted_as_binomials_say() -> None:
    outcome = search(Subsets(10, 4))
    assert outcome.states == sum(comb(10, size) for size in range(5))


# The published specification: distinct states and depth as TLC counts them (oxia.md §1.7; TLC's depth counts states).
PUBLISHED = [
    ({}, 208, 21),
    ({"stops": 1}, 828, 23),
    ({"coordinators": 2}, 1_540, 22),
    ({"values": 2}, 2_692, 28),
]
if os.environ.get("PENSTOCK_NIGHTLY"):
    PUBLISHED.append(({"terms": 2}, 46_247, 38))


@pytest.mark.parametrize(("bounds", "states", "depth"), PUBLISHED)
def test_as_many_states_as_tlc_finds_in_the_published_specification(
    bounds: dict[str, int], states: int, depth: int
) -> None:
    outcome = search(Published(**bounds))
    assert outcome.is_exhausted
    assert (outcome.states, outcome.depth + 1) == (states, depth)
