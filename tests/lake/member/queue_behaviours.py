"""What every queue of the lake must do: the law of the port `lake/member/queue.py`."""

import asyncio
from collections.abc import Awaitable, Callable

from penstock.lake.core.staging.proposing.port import ContinuationToken, Envelope
from penstock.lake.core.staging.records import Sync
from penstock.lake.member.gathering import GatheringQueue
from penstock.lake.member.queue import START, Queue, QueueBatch

STAMP = 7


def envelope(number: int) -> Envelope:
    return Envelope(ContinuationToken("m", "boot", number), Sync())


def numbers_in(batches: list[QueueBatch]) -> list[int]:
    return [each.token.number for batch in batches for each in batch.envelopes if each.token is not None]


async def take(queue: Queue, cursor: int, records: int) -> list[QueueBatch]:
    batches: list[QueueBatch] = []
    async for batch in queue.read(cursor):
        batches.append(batch)
        if sum(len(each.envelopes) for each in batches) >= records:
            break
    return batches


async def keeps_its_promises(
    queue: GatheringQueue, other: GatheringQueue, disturb: Callable[[], Awaitable[object]]
) -> None:
    """Two ends of one queue, whose clock says STAMP; `disturb` puts something on it which is no batch."""
    assert queue.checkpoint_span > 0
    await disturb()
    for number in range(300):
        queue.put(envelope(number))
    async with asyncio.timeout(60):
        batches = await take(queue, START, 300)
        assert numbers_in(batches) == list(range(300))
        assert {batch.stamp for batch in batches} == {STAMP}
        assert queue.appended < 10, "gathered, not one by one"
        assert await take(other, START, 300) == batches, "one order for all"
        await disturb()
        other.put(envelope(300))
        for cursor, left in [(START, 301), *((batch.cursor, 301 - _until(batches, batch)) for batch in batches)]:
            found = await take(queue, cursor, left)  # a reader goes on behind any batch
            assert numbers_in(found) == list(range(301))[-left:]
    await queue.close()
    await other.close()


def _until(batches: list[QueueBatch], last: QueueBatch) -> int:
    return len(numbers_in(batches[: batches.index(last) + 1]))
