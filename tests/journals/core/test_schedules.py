"""S1 to S23 of journals.md by name, with the real replica: the checkers stay silent, and the outcome is as designed."""

import re

import pytest
from tests.journals.core.schedules import SCHEDULES

from penstock.journals.core.replica import Replica


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name: str) -> None:
    world = SCHEDULES[name](Replica)
    for site in world.sites.values():
        site.replica.check()


def test_every_schedule_of_the_design_has_a_name() -> None:
    numbers = {int(found[1]) for name in SCHEDULES if (found := re.match(r"s(\d+)_", name))}
    assert numbers == set(range(1, 24))
