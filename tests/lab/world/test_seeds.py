"""Seeds of every world: some that once failed, some fresh ones, and equal digests in every process."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from penstock_lab.world.run import WORLDS, run_world

SEEDS: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "seeds.toml").read_text())["seed"]
SEEDS_MAX = 12
FRESH = {"journals": 8, "quorum": 4, "lake": 3, "consumers": 3}
DIGESTS = """
import sys; sys.path[:0] = {path!r}
from penstock_lab.world.run import run_world
print([run_world({world!r}, seed).digest for seed in range(2)])
"""


KEPT = [entry for entry in SEEDS if "mutant" not in entry]
CAUGHT = [entry for entry in SEEDS if "mutant" in entry]


@pytest.mark.parametrize("entry", CAUGHT, ids=lambda entry: f"{entry['world']}-{entry['mutant']}")
def test_a_mutant_is_caught_by_its_seed(entry: dict[str, Any]) -> None:
    """The seed caught it when it was written. Another release draws otherwise: then one of the next must."""
    mutant = WORLDS[entry["world"]].mutants[entry["mutant"]]
    told = []
    for seed in range(entry["seed"], entry["seed"] + SEEDS_MAX):
        outcome = run_world(entry["world"], seed, mutant=entry["mutant"])
        if outcome.rule.startswith(mutant.rule):
            return
        told.append(outcome.failure)
    raise AssertionError(f"{entry['mutant']} is not caught: {told}")


@pytest.mark.parametrize("entry", KEPT, ids=lambda entry: f"{entry['world']}-{entry['seed']}")
def test_a_seed_which_once_failed_is_clean_or_still_known(entry: dict[str, Any]) -> None:
    assert entry["why"]
    outcome = run_world(entry["world"], entry["seed"], entry["faults"])
    if "fails" in entry:
        assert outcome.failure is not None, "it is mended: take `fails` out of seeds.toml"
        assert entry["fails"] in outcome.failure
    else:
        assert outcome.failure is None


@pytest.mark.parametrize("world", WORLDS)
def test_some_seeds_are_clean(world: str) -> None:
    failed = {seed: outcome.failure for seed in range(FRESH[world]) if (outcome := run_world(world, seed)).failure}
    assert not failed, "put each into seeds.toml with the reason, and mend it"


@pytest.mark.parametrize("world", WORLDS)
def test_a_seed_has_one_digest_in_every_process(world: str) -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", DIGESTS.format(path=sys.path, world=world)],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "77")
    ]
    assert printed[0] == printed[1]
    assert printed[0].strip() == str([run_world(world, seed).digest for seed in range(2)])
