"""All schedules of the quorum log's world with several seeds, and their mutants: `make schedules-quorum`."""

import pytest

from penstock_lab.world.quorum.mutants import SHELL_MUTANTS, SMALL_WINDOW, replaced
from penstock_lab.world.quorum.play import play
from penstock_lab.world.quorum.schedules import SCHEDULES

pytestmark = pytest.mark.timeout(300)
SEEDS_MAX = 12  # for a mutant: other changes of the code move what a seed draws


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
        seeds = range(mutant.seed, mutant.seed + SEEDS_MAX)
        assert any(play(SCHEDULES[mutant.schedule], seed) is not None for seed in seeds), mutant.rule
