"""S1 to S23 of quorum-log.md, and the holes we found in it, on the nodes we ship."""

import pytest
from tests.quorum.core.cluster import Cluster
from tests.quorum.core.schedules.table import SCHEDULES


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name: str) -> None:
    SCHEDULES[name](Cluster)


def test_every_schedule_of_the_design_is_there() -> None:
    numbers = {int(name[1:].split("_")[0]) for name in SCHEDULES if name.startswith("s")}
    assert numbers == set(range(1, 24))
