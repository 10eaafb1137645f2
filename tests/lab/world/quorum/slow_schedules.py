"""All schedules of the quorum log's world with several seeds, and their mutants: `make schedules-quorum`."""

import pytest

from penstock_lab.world.quorum.mutants import SHELL_MUTANTS, SMALL_WINDOW, replaced
from penstock_lab.world.quorum.play import play
from penstock_lab.world.quorum.schedules import SCHEDULES

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_clean(name: str, seed: int) -> None:
    assert play(SCHEDULES[name], seed) is None


def test_a_small_window_of_pairs_is_no_mutant() -> None:
    with replaced(SMALL_WINDOW):
        assert play(SCHEDULES["x9"]) is None


@pytest.mark.parametrize("name", SHELL_MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    mutant = SHELL_MUTANTS[name]
    with replaced(mutant.places):
        assert play(SCHEDULES[mutant.schedule], mutant.seed) is not None, mutant.rule
