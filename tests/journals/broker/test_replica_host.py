"""A replica in its broker: its behaviour when its disk fails, and when a client is too slow."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.journals.broker.cluster import WAIT_S, read_all, running_cluster

from penstock.journals.broker import appends, feed
from penstock.journals.records.messages import ProposeRequest
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import Indeterminate, PenstockError, Refused, StorageError, Unavailable
from penstock.kernel.ids import NodeId, Offset

ORDERS = JournalSpec(name="shop/orders", replication=3)


async def test_a_replica_whose_disk_fails_is_opened_again_and_appends_go_on(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 3, reopen_s=0.05) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        await journals.append("shop/orders", b"before ")
        follower = next(name for name in cluster.brokers if name != cluster.primary("shop/orders"))
        host = cluster.hosts("shop/orders")[follower]

        def full(*_: object) -> None:
            raise StorageError("no space left on the device")

        host.files.write_out = full  # type: ignore[method-assign]
        with contextlib.suppress(Unavailable, Indeterminate):  # its fate is the next epoch's to tell
            await journals.append("shop/orders", b"lost?", timeout=5.0)
        done = await journals.append("shop/orders", b"after", timeout=WAIT_S)
        assert host.failed == "no space left on the device"
        content = await read_all(journals, "shop/orders")
        assert content in (b"before after", b"before lost?after")
        assert done.end == len(content)


async def test_a_client_which_is_too_slow_is_told_to_go_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "POLICE_S", 0.05)
    monkeypatch.setattr(appends.FlowPolice.__init__, "__defaults__", (64 << 10, 50_000_000))
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as slow, cluster.client() as journals:
        await cluster.create(JournalSpec(name="shop/orders", replication=1))
        never = asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            yield b"x"
            await never.wait()

        dawdling = asyncio.create_task(slow.append("shop/orders", pieces(), timeout=WAIT_S))
        with pytest.raises(Refused, match="too slowly"):
            await dawdling
        assert (await journals.append("shop/orders", b"quick", timeout=WAIT_S)).begin == 0


async def test_a_broker_without_its_lease_ends(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        broker = cluster.brokers["b1"]
        await broker.server.keyspace.revoke_lease(broker.membership.lease)
        async with asyncio.timeout(WAIT_S):
            with pytest.raises(PenstockError, match="lease is lost"):
                await broker.failed()


async def test_content_of_a_proposal_which_is_passed_over_leaves_nothing_in_the_file(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(msgspec.structs.replace(ORDERS, replication=1))
        await journals.append("shop/orders", b"before ")
        host = cluster.hosts("shop/orders")["b1"]
        head, epoch = host.replica.spool.head, host.replica.spool.epoch
        point = head.extended(Offset(head.end + 3), b"s" * 20, head.registers)
        stale = ProposeRequest(host.replica.topology.create_revision, epoch, 9, point, head.end, content=b"zzz")
        host.on_proposal(NodeId("local#stranger"), stale)
        assert (host.files.end, host.files.sum) == (head.end, head.sum)
        done = await journals.append("shop/orders", b"behind")
        assert done.begin == head.end
        assert await read_all(journals, "shop/orders") == b"before behind"
