"""The lake under faults: fresh seeds are clean, mutants are caught, probes are reached, digests are equal."""

import inspect
import re
from importlib import import_module
from pkgutil import iter_modules

import pytest
from tests.lab.sim.workloads.behaviours import (
    fresh_seeds_are_clean,
    has_one_digest,
    mutant_is_caught,
    probes_are_reached,
)

import penstock.lake.core.staging
import penstock_lab.sim.checkers
import penstock_lab.sim.workloads
from penstock_lab.sim.workloads.lake import LakeWorkload

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
    fresh_seeds_are_clean("lake", item, SEEDS_PER_ITEM, request)


@pytest.mark.parametrize("mutant", [name for name in LakeWorkload.mutants if name not in DIRECTED])
def test_the_mutant_is_caught(mutant: str) -> None:
    mutant_is_caught(LakeWorkload, mutant, range(300))


def test_every_probe_is_reached() -> None:
    probes_are_reached(LakeWorkload, range(200))


def test_the_declared_probes_are_those_in_the_code() -> None:
    sources = [
        inspect.getsource(import_module(f"{package.__name__}.{module.name}"))
        for package in (penstock.lake.core.staging, penstock_lab.sim.checkers, penstock_lab.sim.workloads)
        for module in iter_modules(package.__path__)
    ]
    assert set(re.findall(r'"(lake\.[a-z_0-9]+)"', "".join(sources))) == set(LakeWorkload.probes)


def test_a_seed_has_one_digest_whatever_the_hash_seed() -> None:
    has_one_digest("lake")
