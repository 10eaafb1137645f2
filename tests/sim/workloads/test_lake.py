"""The lake under faults: fresh seeds are clean, mutants are caught, probes are reached, digests are equal."""

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest

import penstock.lake.staging
import penstock.sim.checkers
import penstock.sim.workloads
from penstock.sim.run import run_seed
from penstock.sim.trace import Trace
from penstock.sim.workloads import find
from penstock.sim.workloads.lake import LakeWorkload

ITEMS, SEEDS_PER_ITEM = 20, 3  # 60 fresh seeds
DIRECTED = (  # in tests/lake/staging/test_schedules*.py: random seeds need dozens or hundreds for these
    "accepts-lower-attempt",
    "announces-twice",
    "attempt-unchecked",
    "basis-not-compared",
    "believes-issued",
    "checkpoint-by-cursor",
    "condemns-old-run",
    "condemns-young",
    "copy-unchecked",
    "differing-by-identity",
    "joins-sent-sync",
    "keeps-old-attempt",
    "metadata-by-content",
    "old-parent-unnamed",
    "patch-without-gone",
    "puts-by-name",
    "puts-by-token",
    "reparents-if-disjoint",
    "reparents-three-way",
    "token-without-boot",
    "touched-ignored",
)


@pytest.mark.parametrize("item", range(ITEMS))
def test_fresh_seeds_are_clean(item: int, request: pytest.FixtureRequest) -> None:
    """Other seeds in every run: `-p randomly_seed=N` runs those of another run again."""
    base = int(request.config.getoption("randomly_seed") or 0) % 1_000_000
    for seed in range(base * 1_000 + item * SEEDS_PER_ITEM, base * 1_000 + (item + 1) * SEEDS_PER_ITEM):
        outcome = run_seed(LakeWorkload, seed)
        assert outcome.failure is None, f"penstock sim trace lake {seed}: {outcome.failure}"


@pytest.mark.parametrize("mutant", [name for name in LakeWorkload.mutants if name not in DIRECTED])
def test_the_mutant_is_caught(mutant: str) -> None:
    make = find("lake", mutant=mutant)
    caught = next((seed for seed in range(300) if run_seed(make, seed).failure), None)
    assert caught is not None, f"{mutant} breaks {LakeWorkload.mutants[mutant]!r}, and no seed noticed"


def test_every_probe_is_reached() -> None:
    missing = set(LakeWorkload.probes)
    for seed in range(200):
        missing -= run_seed(LakeWorkload, seed).probes.keys()
        if not missing:
            break
    assert not missing


def test_the_declared_probes_are_those_in_the_code() -> None:
    sources = [
        inspect.getsource(import_module(f"{package.__name__}.{module.name}"))
        for package in (penstock.lake.staging, penstock.sim.checkers, penstock.sim.workloads)
        for module in iter_modules(package.__path__)
    ]
    assert set(re.findall(r'"(lake\.[a-z_0-9]+)"', "".join(sources))) == set(LakeWorkload.probes)


def digests() -> str:
    return " ".join(run_seed(LakeWorkload, seed, trace=Trace(keep=True)).digest for seed in range(3))


def test_a_seed_has_one_digest_whatever_the_hash_seed() -> None:
    script = "from tests.sim.workloads.test_lake import digests; print(digests())"
    elsewhere = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONHASHSEED": "12345", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.strip() == digests()
