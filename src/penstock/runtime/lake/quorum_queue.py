"""The quorum log as the lake's queue: a transaction is a batch of records. Design: lake.md L1 to L3; quorum-log.md.

Records of one turn of the event loop go together, and while `APPENDS_IN_FLIGHT_MAX` transactions are under way the next
ones gather: the busier the lake, the larger its batches. Nothing is sent twice from here: a transaction whose outcome
stays unknown is left to the members, who put their records again under the same request ids.

The cursor is the offset behind the last transaction read; a transaction which is no batch of records is left out by
every member alike.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

import msgspec

from penstock.base.errors import PenstockError
from penstock.base.ids import Offset
from penstock.lake.staging.port import Envelope
from penstock.quorum.entry import Txn
from penstock.runtime.lake.queue import QueueBatch
from penstock.runtime.logs import get_logger

__all__ = ["Log", "QuorumQueue"]

APPENDS_IN_FLIGHT_MAX: Final = 3
BATCH_BYTES_MAX: Final = 900 << 10  # below what one transaction may have
APPEND_S: Final = 10.0

log = get_logger()


class Log(Protocol):
    """What is asked of the quorum log: `client.quorum.QuorumLog` is one."""

    async def append(self, ops: bytes, *, timeout: float = APPEND_S) -> Any: ...

    def subscribe(
        self, first: Offset, *, follow: bool = True, is_gapless: bool = False
    ) -> AsyncIterator[tuple[Offset, Txn]]: ...


class _Batch(msgspec.Struct, frozen=True, array_like=True, tag="lake-1"):
    stamp: int
    envelopes: tuple[Envelope, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Batch).decode


class QuorumQueue:
    """The queue of all members of one shard. For one event loop."""

    def __init__(self, quorum_log: Log, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._log = quorum_log
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._gathered: list[msgspec.Raw] = []
        self._bytes = 0
        self._appending: set[asyncio.Task[None]] = set()
        self._is_scheduled = False
        self._was_answered = asyncio.Event()
        self.appended = 0  # transactions
        self.records = 0

    def put(self, envelope: Envelope) -> None:
        data = _encode(envelope)
        if self._bytes + len(data) > BATCH_BYTES_MAX and self._gathered:
            self._append()
        self._gathered.append(msgspec.Raw(data))
        self._bytes += len(data)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._gathered and len(self._appending) < APPENDS_IN_FLIGHT_MAX:
            self._append()

    def _append(self) -> None:
        ops = _encode(("lake-1", self._clock(), self._gathered))
        self.appended += 1
        self.records += len(self._gathered)
        self._gathered, self._bytes = [], 0
        task = self._loop.create_task(self._append_one(ops), name="lake queue append")
        self._appending.add(task)
        task.add_done_callback(self._appended)

    async def _append_one(self, ops: bytes) -> None:
        try:
            await self._log.append(ops, timeout=APPEND_S)
        except PenstockError as error:
            log.warning("the queue did not take a batch", reason=str(error), code=error.code)

    def _appended(self, task: asyncio.Task[None]) -> None:
        self._appending.discard(task)
        self._was_answered.set()
        if not task.cancelled():
            self._flush()

    async def read(self, cursor: int) -> AsyncIterator[QueueBatch]:
        if self._gathered or self._appending:
            await self._was_answered.wait()  # then it is known who leads: that node tells of a commit first
        async for offset, txn in self._log.subscribe(Offset(cursor + 1), is_gapless=True):
            try:
                batch = _decode(txn.ops)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                log.warning("a transaction is no batch of records", offset=offset, reason=str(error))
                continue
            yield QueueBatch(offset, batch.stamp, batch.envelopes)

    async def close(self) -> None:
        for task in self._appending:
            task.cancel()
        await asyncio.gather(*self._appending, return_exceptions=True)
