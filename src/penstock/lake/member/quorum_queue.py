"""The quorum log as the lake's queue: a transaction is a batch of records. Design: lake.md L1 to L3; quorum-log.md.

The cursor is the offset after the last transaction read; a transaction that is no batch of records is left out by every
member alike.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from penstock.kernel.ids import Offset
from penstock.lake.member.gathering import APPEND_S, GatheringQueue, decode_batch
from penstock.lake.member.queue import QueueBatch
from penstock.quorum.records.entry import Txn

__all__ = ["OrderedLog", "QuorumQueue"]


class OrderedLog(Protocol):
    """The part of the quorum log that a queue needs: `client.quorum.QuorumLog` implements it."""

    async def append(self, ops: bytes, *, timeout: float = APPEND_S) -> Any: ...

    def subscribe(
        self, first: Offset, *, follow: bool = True, is_gapless: bool = False
    ) -> AsyncIterator[tuple[Offset, Txn]]: ...


class QuorumQueue(GatheringQueue):
    """The queue of all members of one shard. For one event loop."""

    checkpoint_span = 4_000  # transactions; a node keeps at least 5,000 entries after its snapshot

    def __init__(self, quorum_log: OrderedLog, *, clock: Callable[[], int] | None = None) -> None:
        super().__init__(clock)
        self._log = quorum_log

    async def append(self, data: bytes) -> None:
        await self._log.append(data, timeout=APPEND_S)

    async def read(self, cursor: int) -> AsyncIterator[QueueBatch]:
        await self.first_answer()  # then it is known who leads: that node tells of a commit first
        async for offset, txn in self._log.subscribe(Offset(cursor + 1), is_gapless=True):
            batch = decode_batch(txn.ops, offset)
            if batch is not None:
                yield QueueBatch(offset, batch.stamp, batch.envelopes)
