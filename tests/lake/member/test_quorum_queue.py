"""The quorum log as a queue: one order for all, many records in a transaction, nothing skipped unseen."""

import asyncio
from pathlib import Path

import pytest
from tests.lake.member.queue_behaviours import STAMP, keeps_its_promises, take
from tests.quorum.node.cluster import running_cluster

from penstock.kernel.errors import Compacted
from penstock.lake.member.queue import START
from penstock.lake.member.quorum_queue import QuorumQueue
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.core.config import NodeConfig


async def test_it_keeps_the_promises_of_a_queue(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, 1) as cluster,
        QuorumLog(list(cluster.addresses.values()), "main") as log,
        QuorumLog(list(cluster.addresses.values()), "main") as same,
    ):
        queue, other = (QuorumQueue(each, clock=lambda: STAMP) for each in (log, same))
        await keeps_its_promises(queue, other, lambda: log.append(b"no batch of records", timeout=20))


async def test_a_reader_too_far_behind_is_told(tmp_path: Path) -> None:
    config = NodeConfig(snapshot_entries=50, retain_entries=10)
    async with (
        running_cluster(tmp_path, 1, config=config) as cluster,
        QuorumLog(list(cluster.addresses.values()), "main") as log,
        asyncio.timeout(60),
    ):
        entries = cluster.nodes["n1"].host("main").node.log
        while entries.first == 1:
            await log.append(b"x", timeout=20)
        with pytest.raises(Compacted):
            await take(QuorumQueue(log), START, 1)
