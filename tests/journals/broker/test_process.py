"""A broker as something that runs: how it begins and ends, and that nothing of that takes longer than it may."""

from pathlib import Path

import msgspec
import pytest
from tests.journals.broker.cluster import running_cluster

from penstock.journals.broker.process import STORING, running_broker
from penstock.journals.client.journal import Journals
from penstock.journals.core.allocation import BrokerSpec
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import ConfigError
from penstock.keyspace.core.allocator.layout import Layout, MemberId
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.plumbing.wiring.wiring import Wiring

ORDERS = JournalSpec(name="shop/orders", replication=1)


async def test_a_broker_which_nobody_relieves_ends_within_its_time(tmp_path: Path) -> None:
    """Found by a soak: it waited its whole time to be relieved, and then as long again for Fragments that it could not
    store.
    """
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


async def test_a_broker_announces_its_advertised_address_and_no_wildcard(tmp_path: Path) -> None:
    """E-4: brokers announced 0.0.0.0, which others dial on their own machine."""
    member = MemberId("local", "b1")
    async with await EmbeddedKeySpace.open(tmp_path / "keyspace") as keyspace:
        with pytest.raises(ConfigError, match=r"others cannot dial 0\.0\.0\.0; .*set server\.advertise"):
            async with running_broker(member, tmp_path / "b1", keyspace, Wiring("0.0.0.0")):
                raise AssertionError("it started")
        assert await keyspace.get(Layout("/penstock").member_key(member)) is None
        wiring = Wiring("0.0.0.0", advertise="127.0.0.1")
        async with running_broker(member, tmp_path / "b1", keyspace, wiring) as broker:
            found = await keyspace.get(Layout("/penstock").member_key(member))
            assert found is not None
            assert BrokerSpec.decode(found.value).endpoint == broker.address
            assert broker.address.startswith("127.0.0.1:")
            async with Journals([broker.address]) as journals:
                assert list(await journals.list()) == []
