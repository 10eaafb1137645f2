"""Chains of consumers under faults: clean seeds, caught mutants, reached probes, equal digests."""

from random import Random

import pytest
from tests.lab.sim.workloads.behaviours import has_one_digest, mutant_is_caught

from penstock.kernel.ids import MILLISECOND
from penstock_lab.sim.faults import Atlas
from penstock_lab.sim.run import run, run_seed
from penstock_lab.sim.workloads.exactly_once import ExactlyOnceWorkload


def test_seeds_are_clean_and_every_probe_is_reached() -> None:
    reached: set[str] = set()
    for seed in range(36):
        outcome = run_seed(ExactlyOnceWorkload, seed)
        assert outcome.failure is None, outcome
        reached.update(outcome.probes)
    assert set(ExactlyOnceWorkload.probes) <= reached


@pytest.mark.parametrize("mutant", ExactlyOnceWorkload.mutants)
def test_the_mutant_is_caught(mutant: str) -> None:
    mutant_is_caught(ExactlyOnceWorkload, mutant, range(60))


def test_a_crash_at_any_effect_of_a_small_run_changes_nothing() -> None:
    crash_at, effects = 0, 1
    while crash_at < effects:
        crash_at += 1
        workload = ExactlyOnceWorkload()
        workload.atlas = Atlas(down_max=0, may_pause=False, may_fail_disks=False, may_partition=False)
        workload.safety_ns = 12 * MILLISECOND
        workload.crash_at = crash_at
        run(workload, Random(7))
        effects = workload.effects
    assert crash_at > 50, "the run was too small to say anything"


def test_a_seed_has_one_digest_whatever_the_hash_seed() -> None:
    has_one_digest("exactly-once", seeds=2)
