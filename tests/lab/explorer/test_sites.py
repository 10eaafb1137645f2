"""The core runs once for every pair of a site and a happening; that this is enough is audited here."""

import pytest

from penstock_lab.explorer.configurations import CONFIGURATIONS
from penstock_lab.explorer.search import search
from penstock_lab.explorer.world import ExplorerWorld


@pytest.mark.parametrize("name", ["rollback", "leader-crash", "swap-snapshot", "two-operators"])
def test_equal_fingerprints_take_equal_steps(name: str) -> None:
    """A state with an equal fingerprint, but another history, takes every step again."""
    world = ExplorerWorld(CONFIGURATIONS[name])
    world.sites.audit_every = world.desks.audit_every = 1
    outcome = search(world, states_max=3_000)
    assert outcome.violation is None
    assert world.sites.audited > 100
    assert world.desks.audited > 10


def test_the_core_runs_far_less_often_than_the_world_moves() -> None:
    world = ExplorerWorld(CONFIGURATIONS["slow-disks"])
    outcome = search(world, states_max=5_000)
    assert world.sites.steps_taken < outcome.transitions / 5
