"""What every queue of the lake does with records before they are on it: gather some, and send them as one batch.

Records of one turn of the event loop go together, and while `APPENDS_IN_FLIGHT_MAX` batches are under way the next ones
gather: the busier the lake, the larger its batches. Nothing is sent twice from here: a batch whose outcome stays
unknown is left to the members, who put their records again under the same request ids.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec

from penstock.kernel.errors import FormatTooNew, PenstockError
from penstock.lake.core.staging.proposing.port import Envelope
from penstock.lake.member.queue import QueueBatch
from penstock.plumbing.ports.ports import system_ports
from penstock.plumbing.process.logs import get_logger

__all__ = ["APPEND_S", "BATCH_BYTES_MAX", "GatheredBatch", "GatheringQueue", "decode_batch"]

APPENDS_IN_FLIGHT_MAX: Final = 3
BATCH_BYTES_MAX: Final = 900 << 10  # below what one transaction may have
APPEND_S: Final = 10.0

log = get_logger()


class GatheredBatch(msgspec.Struct, frozen=True, array_like=True, tag="lake-1"):
    """Records that lie together on a queue."""

    stamp: int
    envelopes: tuple[Envelope, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(GatheredBatch).decode


def decode_batch(data: bytes | memoryview, place: int) -> GatheredBatch | None:
    """The batch in some bytes; None if they are none: every member leaves them out alike.

    A batch with a record of an unknown kind raises `FormatTooNew`. A member that skipped it would continue with another
    state than the members that know the kind.
    """
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if _is_of_the_lake(data):
            raise FormatTooNew(
                f"the batch of records at {place} has one that this release does not know: {error}",
                next_step="run the newest release of the lake's members here, too",
            ) from None
        log.warning("this is no batch of records", place=place, reason=str(error))
        return None


def _is_of_the_lake(data: bytes | memoryview) -> bool:
    """Return whether a member of any release wrote these bytes."""
    try:
        first = next(iter(msgspec.msgpack.decode(data, type=list[msgspec.Raw])), b"")
        return msgspec.msgpack.decode(first, type=str).startswith("lake-")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


class GatheringQueue(ABC):
    """The writing side of a queue. For one event loop."""

    checkpoint_span: int  # how far apart, in cursors, members take their checkpoints

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._clock = clock or system_ports().clock.time_ns
        self._loop = asyncio.get_running_loop()
        self._gathered: list[msgspec.Raw] = []
        self._bytes = 0
        self._appending: set[asyncio.Task[None]] = set()
        self._is_scheduled = False
        self._was_answered = asyncio.Event()
        self.appended = 0  # batches
        self.records = 0

    @abstractmethod
    def read(self, cursor: int) -> AsyncIterator[QueueBatch]:
        """Yield every batch after the cursor, and then new ones. `Compacted` if the queue no longer has them all."""

    @abstractmethod
    async def append(self, data: bytes) -> None:
        """Put the bytes of one batch on the queue."""

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
        data = _encode(("lake-1", self._clock(), self._gathered))
        self.appended += 1
        self.records += len(self._gathered)
        self._gathered, self._bytes = [], 0
        task = self._loop.create_task(self._append_one(data), name="lake queue append")
        self._appending.add(task)
        task.add_done_callback(self._appended)

    async def _append_one(self, data: bytes) -> None:
        try:
            await self.append(data)
        except PenstockError as error:
            log.warning("the queue did not take a batch", reason=str(error), code=error.code)

    def _appended(self, task: asyncio.Task[None]) -> None:
        self._appending.discard(task)
        self._was_answered.set()
        if not task.cancelled():
            self._flush()

    async def first_answer(self) -> None:
        """Until the queue has answered once, if it was asked anything."""
        if self._gathered or self._appending:
            await self._was_answered.wait()

    async def close(self) -> None:
        for task in self._appending:
            task.cancel()
        await asyncio.gather(*self._appending, return_exceptions=True)
