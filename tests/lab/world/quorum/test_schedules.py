"""The short schedules of the quorum log's world. `make schedules-quorum` plays all of them, and the mutants."""

import pytest

from penstock_lab.world.quorum.play import play
from penstock_lab.world.quorum.schedules import SCHEDULES

SHORT = ("x8", "b1-idle", "b2-frozen", "b13", "figures", "lost-suffix")


@pytest.mark.parametrize("name", SHORT)
def test_a_schedule_is_clean(name: str) -> None:
    assert play(SCHEDULES[name]) is None
