"""Seeds which once failed, kept in seeds.toml."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from penstock_lab.sim.run import run_seed
from penstock_lab.sim.workloads import find

SEEDS = tomllib.loads((Path(__file__).parent / "seeds.toml").read_text())["seed"]


@pytest.mark.parametrize("entry", SEEDS, ids=lambda entry: f"{entry['workload']}-{entry['seed']}")
def test_a_seed_which_once_failed_is_clean(entry: dict[str, Any]) -> None:
    assert entry["why"]
    outcome = run_seed(find(entry["workload"]), entry["seed"])
    assert outcome.failure is None, outcome
