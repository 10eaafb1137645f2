"""The append service: many small appends become few large ones, in order, and outlive an outage of the brokers.

    async with AppendService(journals) as service:
        done = await service.append("shop/orders", b"...")     # when it is on every replica
        service.put("shop/orders", b"...")                     # the same, later: a future

One batch of a journal is in flight; appends that come meanwhile are the next. While brokers are away batches gather: in
memory, then in a file, up to a bound, and then appends wait. What always holds:

- Appends of one journal are in the order they were asked for, each whole and once: every batch is a transaction, so
  one whose answer was lost is sent again under the same number.
- A failure which may pass is tried again until it has passed, or `patience_s` is over: then the batch and all after it
  fail. The log says why appends wait. A definite refusal fails the appends of that batch with the reason, and none
  after it.
"""

import asyncio
import math
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Final

from penstock.journals.client.journal import Journals
from penstock.journals.client.journal_content import Buffer
from penstock.journals.client.journal_outcomes import Appended, error_after
from penstock.journals.records.names import check_journal_name
from penstock.journals.records.registers import Txn
from penstock.kernel.errors import (
    AlreadyClosed,
    DeadlineExceeded,
    Indeterminate,
    InvalidArgument,
    PenstockError,
    Unavailable,
    WriterExpired,
    Written,
)
from penstock.kernel.ids import Offset
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wal.disk import read_fully, write_fully

__all__ = ["AppendService"]

log = get_logger()

BATCH_BYTES: Final = 1 << 20
ATTEMPT_S: Final = 30.0
FIRST_ATTEMPT_S: Final = 5.0  # then twice as long, up to `attempt_s`: so that a publisher soon says why it waits
PATIENCE_S: Final = 120.0  # of publishers, for a batch that no broker takes
RETRY_S: Final = (0.05, 1.0)


class _Batch:
    """Appends which are sent as one."""

    __slots__ = ("contents", "place", "size", "txn", "waiting")

    def __init__(self) -> None:
        self.contents: list[bytes] = []
        self.waiting: list[tuple[int, asyncio.Future[Appended]]] = []  # length, and who waits
        self.size = 0
        self.place: int | None = None  # its place in the spool file, if it is in there
        self.txn: Txn | None = None  # since it was first sent

    def add(self, content: bytes, future: "asyncio.Future[Appended]") -> None:
        self.contents.append(content)
        self.waiting.append((len(content), future))
        self.size += len(content)

    def succeed(self, done: Appended) -> None:
        at = done.begin
        for length, future in self.waiting:
            end = Offset(at + length)
            if not future.done():
                future.set_result(Appended(done.journal, at, end, b"", done.registers, done.epoch))
            at = end

    def fail(self, error: PenstockError) -> None:
        for _, future in self.waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # a waiting caller gets it; a future that was dropped may fail unseen


class _Lane:
    """The appends of one journal, in order."""

    def __init__(self, service: "AppendService", journal: str) -> None:
        self.journal = journal
        self.batches: deque[_Batch] = deque()
        self.task: asyncio.Task[None] | None = None
        self.seq = 0
        self._service = service

    def add(self, content: bytes, future: "asyncio.Future[Appended]") -> None:
        batch = self.batches[-1] if self.batches else None
        if batch is None or batch.txn is not None or batch.size + len(content) > self._service.batch_bytes:
            if batch is not None:
                self._service.sealed(batch)
            batch = _Batch()
            self.batches.append(batch)
        batch.add(content, future)
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._run(), name=f"appends to {self.journal}")

    async def _run(self) -> None:
        try:
            while self.batches:
                await asyncio.sleep(0)  # let everybody of this turn get into the batch
                batch = self.batches[0]
                await self._send(batch)
                self.batches.popleft()
                self._service.done(batch)
        finally:
            self.task = None

    async def _send(self, batch: _Batch) -> None:
        service = self._service
        self.seq = max(self.seq + 1, service.ports.clock.time_ns() // 1_000)  # above every number of an earlier run
        batch.txn = Txn(service.writer, self.seq)
        attempt = 0
        doubt: PenstockError | None = None
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            try:
                content = service.content(batch)
                left_s = max(RETRY_S[0], begun + service.patience_s - loop.time())
                timeout_s = min(service.attempt_s, FIRST_ATTEMPT_S * float(1 << min(attempt, 8)), left_s)
                batch.succeed(await service.journals.append(self.journal, content, txn=batch.txn, timeout=timeout_s))
                if attempt:
                    log.info("journal takes appends again", journal=self.journal, after_s=round(loop.time() - begun, 1))
                return
            except WriterExpired as error:
                if doubt is not None or error.written is not Written.NO:
                    batch.fail(error_after(doubt, error))
                    return
                self.seq = int(error.details["floor"]) + 1  # no copy was written: take an unused number
                batch.txn = Txn(service.writer, self.seq)
            except (Unavailable, Indeterminate) as error:
                doubt = error if isinstance(error, Indeterminate) else doubt
                attempt += 1
                pause_s = min(RETRY_S[1], RETRY_S[0] * (1 << min(attempt, 8)))
                waited_s = loop.time() - begun
                if waited_s + pause_s >= service.patience_s:
                    self._give_up(batch, error, waited_s, is_doubtful=doubt is not None)
                    return
                if attempt.bit_count() == 1:  # 1, 2, 4, 8 …
                    log.warning(
                        "journal takes no appends",
                        journal=self.journal,
                        waited_s=round(waited_s, 1),
                        reason=error.message,
                        next_step=f"penstock journals explain {self.journal}",
                    )
                await asyncio.sleep(pause_s)
            except PenstockError as error:
                batch.fail(error_after(doubt, error))
                return

    def _give_up(self, batch: _Batch, error: PenstockError, waited_s: float, *, is_doubtful: bool) -> None:
        """Fail the batch and all later ones: no append may follow a missing one."""
        reason = f"{self.journal} took no append for {waited_s:.0f} s: {error.message}"
        explain = f"penstock journals explain {self.journal}"
        kind = DeadlineExceeded if is_doubtful else Unavailable
        batch.fail(kind(reason, next_step=explain))
        while len(self.batches) > 1:
            later = self.batches.pop()
            later.fail(Unavailable(reason, next_step=explain))
            self._service.done(later)


class AppendService:
    """Appends of many, batched. `writer` names it in each journal's registers: two at once must not share a name."""

    def __init__(
        self,
        journals: Journals,
        *,
        writer: str | None = None,
        batch_bytes: int = BATCH_BYTES,
        memory_bytes_max: int = 16 << 20,
        spool_bytes_max: int = 1 << 30,
        spool_folder: Path | None = None,
        attempt_s: float = ATTEMPT_S,
        patience_s: float = math.inf,
    ) -> None:
        """`patience_s`: how long a batch is sent again while no broker takes it; then it and all after it fail."""
        if not 0 < batch_bytes <= memory_bytes_max:
            raise InvalidArgument(f"batch_bytes {batch_bytes}: expected 1 to memory_bytes_max, {memory_bytes_max}")
        self.journals = journals
        self.ports = journals.ports
        self.writer = writer or self.ports.chance.token(8).hex()
        Txn(self.writer, 1).validate()
        self.batch_bytes = batch_bytes
        self.attempt_s = attempt_s
        self.patience_s = patience_s
        self._memory_bytes_max = memory_bytes_max
        self._spool_bytes_max = spool_bytes_max
        self._spool_folder = spool_folder
        self._disk = self.ports.disk
        self._spool: int | None = None  # a file
        self._spool_end = 0
        self._spooled_bytes = 0  # in the file, and not yet appended
        self._is_spool_full = False
        self._memory_bytes = 0
        self._lanes: dict[str, _Lane] = {}
        self._room: deque[asyncio.Future[None]] = deque()
        self._is_closed = False

    async def __aenter__(self) -> "AppendService":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.flush()
        await self.close()

    async def append(self, journal: str, content: Buffer) -> Appended:
        """Append; return when it is on every replica. Waits for room first, if too much is on its way."""
        await self.wait_for_room()
        return await self.put(journal, content)

    async def wait_for_room(self) -> None:
        """Wait until `put` would take something."""
        while self.is_full:
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(room)
            await room

    def put(self, journal: str, content: Buffer) -> "asyncio.Future[Appended]":
        """Append, and tell later. Refuses when too much is on its way: see `is_full`."""
        if self._is_closed:
            raise AlreadyClosed("the append service is closed")
        if self.is_full:
            raise Unavailable("too much waits to be appended; nothing was written")
        lane = self._lanes.get(journal)
        if lane is None:
            check_journal_name(journal)
            lane = self._lanes[journal] = _Lane(self, journal)
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        data = content if isinstance(content, bytes) else bytes(content)
        self._memory_bytes += len(data)
        lane.add(data, future)
        return future

    @property
    def is_full(self) -> bool:
        if self._is_spool_full:
            return self._memory_bytes >= self._memory_bytes_max
        return self._memory_bytes + self._spooled_bytes >= self._memory_bytes_max + self._spool_bytes_max

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that are not appended yet."""
        return self._memory_bytes + self._spooled_bytes

    async def flush(self) -> None:
        """Wait until everything which was put is appended, or refused."""
        while tasks := [lane.task for lane in self._lanes.values() if lane.task is not None]:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Stop. Remaining appends fail: their outcome is unknown if they were sent, and they are not written if they
        were not.
        """
        self._is_closed = True
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lane in self._lanes.values():
            for batch in lane.batches:
                batch.fail(
                    Unavailable("the append service was closed before this was sent; nothing was written")
                    if batch.txn is None
                    else Indeterminate("the append service was closed before the answer came")
                )
            lane.batches.clear()
        if self._spool is not None:
            self._disk.close(self._spool)
            self._spool = None
        self._wake()

    # for lanes

    def sealed(self, batch: _Batch) -> None:
        """A batch which is complete, and waits: beyond the memory it may take, its content goes into the file."""
        if self._memory_bytes <= self._memory_bytes_max or batch.txn is not None:
            return
        if self._is_spool_full:
            return
        try:
            if self._spool is None:
                self._spool = self._disk.temporary(self._spool_folder)
            write_fully(self._disk, self._spool, b"".join(batch.contents), self._spool_end)
        except OSError as error:  # its disk is full: the memory keeps the batch, and more appends wait for room
            self._is_spool_full = True
            log.warning("append spool failed", reason=str(error))
            return
        batch.contents, batch.place = [], self._spool_end
        self._spool_end += batch.size
        self._spooled_bytes += batch.size
        self._memory_bytes -= batch.size

    def content(self, batch: _Batch) -> bytes:
        if batch.place is None:
            return batch.contents[0] if len(batch.contents) == 1 else b"".join(batch.contents)
        assert self._spool is not None
        return read_fully(self._disk, self._spool, batch.size, batch.place)

    def done(self, batch: _Batch) -> None:
        if batch.place is None:
            self._memory_bytes -= batch.size
        else:
            self._spooled_bytes -= batch.size
            if not self._spooled_bytes and self._spool is not None:
                self._disk.ftruncate(self._spool, 0)
                self._spool_end = 0
                self._is_spool_full = False
        if not self.is_full:
            self._wake()

    def _wake(self) -> None:
        while self._room:
            room = self._room.popleft()
            if not room.done():
                room.set_result(None)
