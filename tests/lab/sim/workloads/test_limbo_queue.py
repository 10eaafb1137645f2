"""The limbo's queue under faults: clean seeds, caught mutants, reached probes, equal digests."""

import inspect
import re

import pytest
from tests.lab.sim.workloads.behaviours import has_one_digest, mutant_is_caught

from penstock.quorum.core import follow_cursor, limbo_queue
from penstock_lab.sim.run import run_seed
from penstock_lab.sim.workloads import limbo_leader
from penstock_lab.sim.workloads import limbo_queue as workload
from penstock_lab.sim.workloads.limbo_queue import LimboQueueWorkload


def test_seeds_are_clean_and_every_probe_is_reached() -> None:
    reached: set[str] = set()
    for seed in range(120):
        outcome = run_seed(LimboQueueWorkload, seed)
        assert outcome.failure is None, outcome
        reached.update(outcome.probes)
    assert set(LimboQueueWorkload.probes) <= reached


@pytest.mark.parametrize("mutant", LimboQueueWorkload.mutants)
def test_the_mutant_is_caught(mutant: str) -> None:
    mutant_is_caught(LimboQueueWorkload, mutant, range(200))


def test_the_declared_probes_are_those_in_the_code() -> None:
    sources = "".join(map(inspect.getsource, (limbo_leader, workload, limbo_queue, follow_cursor)))
    assert set(re.findall(r'reached\("(limbo\.[^"]+)"\)', sources)) == set(LimboQueueWorkload.probes)


def test_a_seed_has_one_digest_whatever_the_hash_seed() -> None:
    has_one_digest("limbo-queue")
