"""Decision 312: schedules with `least`, and every rule's mutant is killed by one of them."""

import re

import pytest
from tests.journals.core import schedules_of_least

from penstock.journals.core.replica import Replica
from penstock_lab.sim.least.mutants import LEAST_MUTANTS

SCHEDULES = {name: each for name, each in vars(schedules_of_least).items() if re.match(r"(l|s[a-d])_", name)}
KILLED_BY = {
    "acks-of-participants": "sa_acks_of_participants",
    "sets-aside": "sb_set_aside_alone",
    "forgets-who-left": "sc_many_epochs_without_it",
    "one-copy-commits": "l_one_copy_is_not_committed",
    "first-by-few": "l_a_life_begins_with_all",
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name: str) -> None:
    world = SCHEDULES[name](Replica)
    for site in world.sites.values():
        site.replica.check()


def test_every_mutant_has_its_schedule() -> None:
    assert KILLED_BY.keys() == LEAST_MUTANTS.keys()


@pytest.mark.parametrize("mutant", LEAST_MUTANTS)
def test_the_mutant_is_killed(mutant: str) -> None:
    with pytest.raises(AssertionError) as killed:
        SCHEDULES[KILLED_BY[mutant]](LEAST_MUTANTS[mutant].replica)
    assert re.match(r"[IJ]\d+: ", str(killed.value)), f"not by a checker: {killed.value}"
