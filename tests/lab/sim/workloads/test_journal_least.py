"""Two of three are enough: fresh seeds and walks are clean, mutants are caught, probes are reached."""

from random import Random

import pytest
from tests.lab.sim.workloads.behaviours import fresh_seeds_are_clean, has_one_digest, mutant_is_caught

from penstock_lab.explorer_journal.walk import walk_with_least
from penstock_lab.sim.least.workload import JournalLeastWorkload
from penstock_lab.sim.run import run_seed

ITEMS, SEEDS_PER_ITEM = 4, 12  # 48 fresh seeds
WALKS = 60
DIRECTED = ("sets-aside", "forgets-who-left", "one-copy-commits")  # tests/journals/core/test_least.py
OWN = {"journal.passed_over", "journal.member_left", "journal.told_unknown_in_doubt"}


@pytest.mark.parametrize("item", range(ITEMS))
def test_fresh_seeds_are_clean(item: int, request: pytest.FixtureRequest) -> None:
    fresh_seeds_are_clean("journal-least", item, SEEDS_PER_ITEM, request)


@pytest.mark.parametrize("mutant", [name for name in JournalLeastWorkload.mutants if name not in DIRECTED])
def test_the_mutant_is_caught(mutant: str) -> None:
    mutant_is_caught(JournalLeastWorkload, mutant, range(300))


def test_the_probes_of_its_own_are_reached() -> None:
    missing = set(OWN)
    for seed in range(300):
        missing -= run_seed(JournalLeastWorkload, seed).probes.keys()
        if not missing:
            break
    assert not missing


def test_walks_are_clean() -> None:
    for seed in range(WALKS):
        walk_with_least(Random(seed))


@pytest.mark.parametrize("seed", [9_361], ids=["a participant that has nothing"])
def test_what_a_walk_has_found_is_mended(seed: int) -> None:
    walk_with_least(Random(seed))


def test_a_seed_has_one_digest_whatever_the_hash_seed() -> None:
    has_one_digest("journal-least")
