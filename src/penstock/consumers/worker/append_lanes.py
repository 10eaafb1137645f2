"""The appends of a shard: a lane per journal, in order, each again until it is acknowledged.

One append of a lane is in flight; frames that arrive meanwhile go with the next. Every append is a transaction of the
journal, numbered by a writer of this life of the shard alone. So one whose answer was lost cannot come up later, behind
newer ones: an ACK which did would roll those back.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from penstock.journals.client.journal import Journals
from penstock.journals.records.registers import Txn
from penstock.kernel.errors import Indeterminate, PenstockError, Unavailable, WriterExpired, Written
from penstock.kernel.ids import Offset
from penstock.messages.uuid import ProducerId, producer_text
from penstock.plumbing.process.logs import get_logger

__all__ = ["AppendLanes", "writer_of"]

BATCH_BYTES: Final = 1 << 20
ATTEMPT_S: Final = 10.0
RETRY_S: Final = (0.02, 0.5)

log = get_logger()


def writer_of(shard: str, producer: ProducerId) -> str:
    """The name under which a life of a shard appends: all of one shard begin alike."""
    return f"shard-{blake2b(shard.encode(), digest_size=8).hexdigest()}.{producer_text(producer)}"


class AppendLanes:
    """All lanes of one life of a shard. `appended` and `failed` are called on the event loop."""

    def __init__(
        self,
        journals: Journals,
        writer: str,
        *,
        appended: Callable[[int, Offset], None],
        failed: Callable[[int, PenstockError], None],
    ) -> None:
        self.journals = journals
        self.writer = writer
        self.appended = appended
        self.failed = failed
        self._lanes: dict[str, _Lane] = {}

    def put(self, number: int, journal: str, data: bytes) -> None:
        """Append, after all that was put for this journal before."""
        lane = self._lanes.get(journal)
        if lane is None:
            lane = self._lanes[journal] = _Lane(self, journal)
        lane.put(number, data)

    async def close(self) -> None:
        """Stop. Appends in flight may still take effect."""
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Lane:
    """One journal."""

    def __init__(self, lanes: AppendLanes, journal: str) -> None:
        self.task: asyncio.Task[None] | None = None
        self._lanes = lanes
        self._journal = journal
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._seq = 0

    def put(self, number: int, data: bytes) -> None:
        self._waiting.append((number, data))
        if self.task is None:
            self.task = asyncio.create_task(self._run(), name=f"appends to {self._journal}")

    async def _run(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0)  # let everybody of this turn get into the batch
                batch = self._take()
                try:
                    at = await self._append(b"".join([data for _, data in batch]))
                except PenstockError as error:
                    for number, _ in batch:
                        self._lanes.failed(number, error)
                    continue
                for number, data in batch:
                    at = Offset(at + len(data))
                    self._lanes.appended(number, at)
        finally:
            self.task = None

    def _take(self) -> list[tuple[int, bytes]]:
        batch, size = [self._waiting.popleft()], 0
        while self._waiting and (size := size + len(batch[-1][1])) < BATCH_BYTES:
            batch.append(self._waiting.popleft())
        return batch

    async def _append(self, data: bytes) -> Offset:
        """Append until it has taken effect; return where it begins."""
        now_us = self._lanes.journals.ports.clock.time_ns() // 1_000
        self._seq = max(self._seq + 1, now_us)  # above the numbers of writers that are forgotten
        txn = Txn(self._lanes.writer, self._seq)
        attempt, is_doubtful = 0, False
        while True:
            try:
                done = await self._lanes.journals.append(self._journal, data, txn=txn, timeout=ATTEMPT_S)
            except WriterExpired as error:
                if is_doubtful or error.written is not Written.NO:
                    raise
                self._seq = int(error.details["floor"]) + 1  # no copy was written: take an unused number
                txn = Txn(self._lanes.writer, self._seq)
            except (Unavailable, Indeterminate) as error:
                is_doubtful = is_doubtful or isinstance(error, Indeterminate)
                attempt += 1
                log.info("append again", journal=self._journal, attempt=attempt, reason=str(error))
                await asyncio.sleep(min(RETRY_S[1], RETRY_S[0] * (1 << min(attempt, 8))))
            else:
                return done.begin
