"""The quorum log as a queue: one order for all, many records in a transaction, nothing skipped unseen."""

import asyncio
from pathlib import Path

import pytest
from tests.runtime.quorum.cluster import running_cluster

from penstock.base.errors import Compacted
from penstock.client.quorum import QuorumLog
from penstock.lake.staging.port import ContinuationToken, Envelope
from penstock.lake.staging.records import Sync
from penstock.quorum.config import NodeConfig
from penstock.runtime.lake.queue import START, QueueBatch
from penstock.runtime.lake.quorum_queue import QuorumQueue


def envelope(number: int) -> Envelope:
    return Envelope(ContinuationToken("m", "boot", number), Sync())


async def take(queue: QuorumQueue, cursor: int, records: int) -> list[QueueBatch]:
    batches: list[QueueBatch] = []
    async for batch in queue.read(cursor):
        batches.append(batch)
        if sum(len(each.envelopes) for each in batches) >= records:
            break
    return batches


async def test_records_come_back_in_order_and_many_share_a_transaction(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path, 1) as cluster,
        QuorumLog(list(cluster.addresses.values()), "main") as log,
        asyncio.timeout(60),
    ):
        queue = QuorumQueue(log, clock=lambda: 7)
        await log.append(b"no batch of records", timeout=20)
        for number in range(300):
            queue.put(envelope(number))
        batches = await take(queue, START, 300)
        numbers = [each.token.number for batch in batches for each in batch.envelopes if each.token is not None]
        assert numbers == list(range(300))
        assert {batch.stamp for batch in batches} == {7}
        assert queue.appended < 10  # gathered, not one by one
        queue.put(envelope(300))
        (rest,) = await take(queue, batches[-1].cursor, 1)  # a reader goes on behind any batch
        assert rest.envelopes == (envelope(300),)
        await queue.close()


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
