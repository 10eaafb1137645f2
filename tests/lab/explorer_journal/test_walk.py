"""Random walks through single steps: fresh ones are clean, and mutants do not get far."""

import os
from random import Random

import pytest

from penstock_lab.explorer_journal.actions import Action
from penstock_lab.explorer_journal.walk import walk
from penstock_lab.sim.workloads.journal_mutants import MUTANTS

DIRECTED = (  # by their schedules in tests/journal; walks need hundreds or thousands
    "certification-in-flight",
    "certifies-early",
    "certifies-too-few",
    "counts-late-acks",
    "forgets-assignments",
    "forgets-reset",
    "largest-end",
    "largest-end-of-anybody",
    "old-epochs-applied",
    "persists-by-last",
    "resets-count-early",
    "resolves-by-last",
)


@pytest.mark.parametrize("item", range(5))
def test_fresh_walks_are_clean(item: int, request: pytest.FixtureRequest) -> None:
    """The same walks in every run. HYPOTHESIS=curious: others each time."""
    is_curious = os.environ.get("HYPOTHESIS") == "curious"
    base = int(request.config.getoption("randomly_seed") or 0) % 1_000_000 if is_curious else 0
    for seed in range(base * 1_000 + item * 25, base * 1_000 + (item + 1) * 25):
        schedule: list[Action] = []
        try:
            walk(Random(seed), schedule=schedule)
        except AssertionError as broken:
            raise AssertionError(f"walk {seed}: {broken}; {schedule}") from broken


@pytest.mark.parametrize("mutant", [name for name in MUTANTS if name not in DIRECTED])
def test_the_mutant_is_caught(mutant: str) -> None:
    def is_caught(seed: int) -> bool:
        try:
            walk(Random(seed), replica_class=MUTANTS[mutant].replica)
        except AssertionError:
            return True
        return False

    assert any(map(is_caught, range(250))), f"{mutant} breaks {MUTANTS[mutant].rule!r}, and no walk noticed"
