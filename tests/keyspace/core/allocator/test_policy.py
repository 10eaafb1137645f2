import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.keyspace.core.allocator.policy import Capacity, Demand


@pytest.mark.parametrize(
    ("replication", "load"), [(-1, 1.0), (33, 1.0), (1, 0.0), (1, -1.0), (1, float("nan")), (1, 1e18)]
)
def test_a_demand_nobody_can_meet_is_refused(replication: int, load: float) -> None:
    with pytest.raises(InvalidArgument):
        Demand(replication, load)


def test_a_limit_is_not_negative() -> None:
    with pytest.raises(InvalidArgument):
        Capacity(-1)
