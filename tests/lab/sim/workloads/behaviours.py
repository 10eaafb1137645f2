"""What every workload of the simulator owes: clean seeds, caught mutants, reached probes, one digest to a seed."""

import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any, Final

import pytest

from penstock_lab.sim.run import run_seed
from penstock_lab.sim.trace import Trace
from penstock_lab.sim.workloads import find

__all__ = ["fresh_seeds_are_clean", "has_one_digest", "mutant_is_caught", "probes_are_reached"]

STEADY_BASE: Final = 20_000  # its seeds begin behind those of the long sweeps


def fresh_seeds_are_clean(workload: str, item: int, seeds_per_item: int, request: pytest.FixtureRequest) -> None:
    """The same seeds in every run: a commit is judged by its own changes. HYPOTHESIS=curious: others each time."""
    is_curious = os.environ.get("HYPOTHESIS") == "curious"
    base = int(request.config.getoption("randomly_seed") or 0) % 1_000_000 if is_curious else STEADY_BASE
    make = find(workload)
    for seed in range(base * 1_000 + item * seeds_per_item, base * 1_000 + (item + 1) * seeds_per_item):
        outcome = run_seed(make, seed)
        assert outcome.failure is None, f"penstock sim trace {workload} {seed}: {outcome.failure}"


def mutant_is_caught(workload: Any, mutant: str, seeds: Iterable[int]) -> None:
    make = find(workload.name, mutant=mutant)
    caught = next((seed for seed in dict.fromkeys(seeds) if run_seed(make, seed).failure), None)
    assert caught is not None, f"{mutant} breaks {workload.mutants[mutant]!r}, and no seed noticed"


def probes_are_reached(workload: Any, seeds: Iterable[int]) -> None:
    missing = set(workload.probes)
    for seed in dict.fromkeys(seeds):
        missing -= run_seed(workload, seed).probes.keys()
        if not missing:
            break
    assert not missing


def digests(workload: str, seeds: int) -> str:
    return " ".join(run_seed(find(workload), seed, trace=Trace(keep=True)).digest for seed in range(seeds))


def has_one_digest(workload: str, seeds: int = 3) -> None:
    """Whatever the hash seed."""
    script = f"from tests.lab.sim.workloads.behaviours import digests; print(digests({workload!r}, {seeds}))"
    elsewhere = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONHASHSEED": "12345", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.strip() == digests(workload, seeds)
