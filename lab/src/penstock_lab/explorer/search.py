"""Breadth-first search through all states of a model, each visited once.

A `Model` says where it starts and which steps a state has; a step which breaks an invariant is a `Violation` instead of
a state. The search knows nothing of what a state means. It is exact: states are compared, not only their hashes, and
the first violation found is one of the shortest there are.
"""

import gc
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Model", "SearchOutcome", "Violation", "search"]

State = TypeVar("State", bound=Hashable)
REPORT_EVERY = 5_000  # states


class Violation(Exception):
    """A step broke an invariant; the text says which, and how."""


class Model(Protocol[State]):
    """What can be searched. A step is (action, state), or (action, violation); a bad start raises its violation."""

    def starts(self) -> Iterable[State]: ...

    def steps(self, state: State) -> Sequence[tuple[Any, State | Violation]]: ...


@dataclass
class SearchOutcome(Generic[State]):
    """What a search has seen so far, or at its end."""

    states: int = 0  # distinct
    transitions: int = 0
    depth: int = 0  # steps from a start to the farthest state
    is_exhausted: bool = False  # every reachable state was visited
    violation: str | None = None
    schedule: list[tuple[Any, State | None]] = field(
        default_factory=list
    )  # the steps that lead to it; the last has none

    @property
    def ends_well(self) -> bool:
        return self.violation is None


def search(
    model: Model[State],
    *,
    states_max: int | None = None,
    goes_on: Callable[[SearchOutcome[State]], bool] = lambda _: True,
) -> SearchOutcome[State]:
    """Visit every state, up to `states_max`, or while `goes_on` says so (it is asked now and then)."""
    outcome: SearchOutcome[State] = SearchOutcome()
    try:
        parents: dict[State, State | None] = dict.fromkeys(model.starts())
    except Violation as broken:
        outcome.violation = str(broken)
        return outcome
    level: list[State] = list(parents)
    with _without_cycles():
        while level:
            following: list[State] = []
            for state in level:
                for action, found in model.steps(state):
                    outcome.transitions += 1
                    if isinstance(found, Violation):
                        outcome.states, outcome.violation = len(parents), str(found)
                        outcome.schedule = [*_steps_to(model, parents, state), (action, None)]
                        return outcome
                    if found not in parents:
                        parents[found] = state
                        following.append(found)
                        if len(parents) % REPORT_EVERY == 0:
                            outcome.states = len(parents)
                            if not goes_on(outcome):
                                return outcome
                if states_max is not None and len(parents) >= states_max:
                    outcome.states = len(parents)
                    return outcome
            outcome.states = len(parents)
            outcome.depth += bool(following)
            level = following
    outcome.is_exhausted = True
    return outcome


@contextmanager
def _without_cycles() -> Iterator[None]:
    """States make no reference cycles, and a collector which walks millions of them costs half the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _steps_to(model: Model[State], parents: dict[State, State | None], state: State) -> list[tuple[Any, State]]:
    """The way from a start to this state. Actions were not kept: each is found by taking the step again."""
    way: list[tuple[Any, State]] = []
    parent = parents[state]
    while parent is not None:
        action = next(action for action, found in model.steps(parent) if found == state)
        way.append((action, state))
        state, parent = parent, parents[parent]
    way.reverse()
    return way
