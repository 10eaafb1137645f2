"""The limbo's queue under faults: clean seeds, caught mutants, reached probes, equal digests."""

import inspect
import re
import subprocess
import sys

import pytest

from penstock.quorum import follow_cursor, limbo_queue
from penstock.sim.run import run_seed
from penstock.sim.trace import Trace
from penstock.sim.workloads import find, limbo_leader
from penstock.sim.workloads import limbo_queue as workload
from penstock.sim.workloads.limbo_queue import LimboQueueWorkload


def test_seeds_are_clean_and_every_probe_is_reached() -> None:
    reached: set[str] = set()
    for seed in range(120):
        outcome = run_seed(LimboQueueWorkload, seed)
        assert outcome.failure is None, outcome
        reached.update(outcome.probes)
    assert set(LimboQueueWorkload.probes) <= reached


@pytest.mark.parametrize("mutant", LimboQueueWorkload.mutants)
def test_the_mutant_is_caught(mutant: str) -> None:
    make = find("limbo-queue", mutant=mutant)
    caught = next((seed for seed in range(200) if run_seed(make, seed).failure), None)
    assert caught is not None, f"{mutant} breaks {LimboQueueWorkload.mutants[mutant]!r}, and no seed noticed"


def test_the_declared_probes_are_those_in_the_code() -> None:
    sources = "".join(map(inspect.getsource, (limbo_leader, workload, limbo_queue, follow_cursor)))
    assert set(re.findall(r'reached\("(limbo\.[^"]+)"\)', sources)) == set(LimboQueueWorkload.probes)


def digests() -> str:
    return " ".join(run_seed(LimboQueueWorkload, seed, trace=Trace(keep=True)).digest for seed in range(3))


def test_a_seed_has_one_digest_whatever_the_hash_seed() -> None:
    script = "from tests.sim.workloads.test_limbo_queue import digests; print(digests())"
    elsewhere = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONHASHSEED": "12345", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.strip() == digests()
