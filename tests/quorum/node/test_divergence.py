"""A replica with a wrong state, on real sockets and disks: it is named, never leads, and comes back by a swap."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.quorum.node.cluster import Cluster, running_cluster

from penstock.kernel.errors import Unavailable
from penstock.kernel.ids import NO_ENTRY, NodeId
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.core.machines.builtin import Get, Put, encode_op
from penstock.quorum.node.host import ReplicaHost
from penstock.quorum.records.messages import ChangeOp

pytestmark = pytest.mark.timeout(60)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110  what is waited for is a state inside the part under test
            await asyncio.sleep(0.01)


def host(cluster: Cluster, name: str) -> ReplicaHost:
    return cluster.nodes[name].host("main")


def leader_or_none(cluster: Cluster) -> str:
    return next((name for name in cluster.nodes if host(cluster, name).node.leader is not None), "")


async def damage(cluster: Cluster, log: QuorumLog, name: str) -> None:
    """Let the memory of a replica go wrong, and more transactions go over it."""
    await log.append(encode_op(Put("k", b"right")))
    await until(lambda: host(cluster, name)._machine.query(encode_op(Get("k"))) == b"right")
    host(cluster, name)._machine._set("k", b"wrong")  # type: ignore[attr-defined]
    async with asyncio.timeout(30):
        while host(cluster, name).node.divergence is None:
            await log.append(encode_op(Put("other", b"1")))


async def test_a_wrong_follower_never_leads_not_even_after_a_restart(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, QuorumLog(list(cluster.addresses.values()), "main") as log:
        await log.append(encode_op(Put("k", b"")))
        leader = cluster.leader()
        wrong, right = (name for name in cluster.nodes if name != leader)
        await damage(cluster, log, wrong)
        host(cluster, wrong).take_snapshot()
        await cluster.stop_node(wrong)
        await cluster.start_node(wrong)
        assert host(cluster, wrong).node.divergence is not None, "it is written down"
        with pytest.raises(Unavailable, match="wrong"):
            await host(cluster, wrong).read(encode_op(Get("k")), is_linearizable=False, after=NO_ENTRY)
        await cluster.operator.elect("main", NodeId(wrong))
        assert leader_or_none(cluster) != wrong
        assert (await log.read(encode_op(Get("k")))).result == b"right"
        with pytest.raises(Unavailable, match="wrong"):
            await host(cluster, wrong).entries_from(host(cluster, wrong).node.log.first, 1)
        if leader_or_none(cluster) == wrong:
            raise AssertionError("it leads")
        await cluster.operator.reconfigure("main", ChangeOp.SWAP, NodeId(wrong), NodeId(wrong))
        await until(lambda: host(cluster, wrong).node.serves_reads)
        assert host(cluster, wrong).node.divergence is None
        assert host(cluster, wrong)._machine.query(encode_op(Get("k"))) == b"right"
        assert right in cluster.nodes


async def test_a_wrong_leader_does_not_make_the_others_wrong(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, QuorumLog(list(cluster.addresses.values()), "main") as log:
        await log.append(encode_op(Put("k", b"")))
        wrong = cluster.leader()
        await damage(cluster, log, wrong)
        await until(lambda: leader_or_none(cluster) not in ("", wrong))
        assert (await log.read(encode_op(Get("k")))).result == b"right"
        await log.append(encode_op(Put("k", b"new")))
        others = [name for name in cluster.nodes if name != wrong]
        await until(lambda: all(host(cluster, name).node.replica.agreement.is_trusted for name in others))
        assert [host(cluster, name).node.divergence for name in others] == [None, None]
        assert host(cluster, wrong).node.divergence is not None
