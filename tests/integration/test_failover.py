"""Three brokers, R = 3, one of them killed or frozen under load. `make soak-failover` does it fifty times each."""

from pathlib import Path

import pytest
from tests.integration.failover_drill import Failover, three_brokers

pytestmark = pytest.mark.timeout(120)
SLOWEST_S = 5.0  # of the 1.5 s that the soak shows: this machine runs other tests as well


async def test_a_killed_and_a_frozen_primary_hold_up_nobody_for_long(tmp_path: Path) -> None:
    with three_brokers(tmp_path) as cluster:
        failover = Failover(cluster, "shop/orders")
        await failover.create()
        async with failover.load():
            await failover.all_moved_on()
            slowest_s = await failover.freeze((await failover.brokers())[0], 1.5)
            cluster.kill((await failover.brokers())[0])
            failover.slowest_s = max(failover.slowest_s, slowest_s)
            await failover.all_moved_on()
        assert failover.slowest_s < SLOWEST_S
        assert await failover.audit()
