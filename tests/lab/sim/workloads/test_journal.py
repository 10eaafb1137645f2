"""The journal under faults: fresh seeds are clean, mutants are caught, probes are reached, digests are equal."""

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

import penstock.journals.core
import penstock_lab.sim.workloads
from penstock_lab.sim.run import run_seed
from penstock_lab.sim.workloads.journal import JournalWorkload

ITEMS, SEEDS_PER_ITEM = 8, 6  # 48 fresh seeds
DIRECTED = (  # in tests/journals/core/test_mutants.py: random seeds need thousands for these
    "forgets-reset",
    "certifies-early",
    "largest-end",
    "largest-end-of-anybody",
    "persists-by-last",
    "resets-count-early",
    "resolves-by-last",
    "certification-in-flight",
    "certifies-too-few",
)
GOOD_SEEDS = (98, 15, 32, 7)  # they reach every probe today, and are tried first
CATCHING_SEEDS = (0, 1, 2, 3, 6, 7, 32, 33, 301)  # they catch every mutant today, and are tried first
PROBES_ELSEWHERE = {
    "journal.superseded": "tests/journals/core/test_replica.py",
    "journal.proposal_mismatch": "no replica may; tests/journals/core/test_replicate.py sends one",
    "journal.another_life": "tests/journals/core/schedules.py, s18",
    "journal.no_room": "disks of the simulator have no end; tests/journals/core/test_shortage.py",
    "journal.member_left": "test_journal_least.py",
    "journal.set_aside": "a table of 64 epochs; tests/journals/core/test_spool.py",
}


@pytest.mark.parametrize("item", range(ITEMS))
def test_fresh_seeds_are_clean(item: int, request: pytest.FixtureRequest) -> None:
    fresh_seeds_are_clean("journal", item, SEEDS_PER_ITEM, request)


@pytest.mark.parametrize("mutant", [name for name in JournalWorkload.mutants if name not in DIRECTED])
def test_the_mutant_is_caught(mutant: str) -> None:
    mutant_is_caught(JournalWorkload, mutant, (*CATCHING_SEEDS, *range(100)))


def test_every_probe_is_reached() -> None:
    probes_are_reached(JournalWorkload, (*GOOD_SEEDS, *range(400)))


def test_the_declared_probes_are_those_in_the_code() -> None:
    sources = [
        inspect.getsource(import_module(f"{package.__name__}.{module.name}"))
        for package in (penstock.journals.core, penstock_lab.sim.workloads)
        for module in iter_modules(package.__path__)
        if package is penstock.journals.core or module.name.startswith("journal")
    ]
    named = set(re.findall(r'reached\("(journal\.[a-z_0-9]+)"\)', "".join(sources)))
    made = {probe for probe in JournalWorkload.probes if probe.startswith(("journal.told_", "journal.resolved_"))}
    assert named | made == {*JournalWorkload.probes, *PROBES_ELSEWHERE}


@pytest.mark.parametrize("seed", [5_576], ids=["a broker is assigned twice"])
def test_what_a_seed_has_found_is_mended(seed: int) -> None:
    assert run_seed(JournalWorkload, seed).failure is None


def test_a_seed_has_one_digest_whatever_the_hash_seed() -> None:
    has_one_digest("journal")
