"""A broker as something that runs: how it begins and ends, and that nothing of that takes longer than it may."""

from pathlib import Path

import msgspec
import pytest
from tests.journals.broker.cluster import running_cluster

from penstock.journals.broker.process import STORING
from penstock.journals.records.spec import JournalSpec

ORDERS = JournalSpec(name="shop/orders", replication=1)


async def test_a_broker_which_nobody_relieves_ends_within_its_time(tmp_path: Path) -> None:
    """Found by a soak: it waited its whole time to be relieved, and then as long again for what it could not store."""
    drain_s = 0.2
    async with running_cluster(tmp_path, 1, drain_s=drain_s) as cluster:
        await cluster.create(ORDERS)
        cluster.config = msgspec.structs.replace(cluster.config, limit=0)
        await cluster.start("b2")  # it stays, and takes nothing
        leaving = cluster.brokers["b1"]
        waited: list[float] = []
        left = leaving.server.left

        async def spied(wait_s: float) -> None:
            waited.append(wait_s)
            await left(wait_s)

        leaving.server.left = spied  # type: ignore[method-assign]
        assert await leaving.drain() == ["shop/orders"]
        assert waited == [pytest.approx(drain_s * STORING)]
