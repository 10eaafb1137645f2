"""The WAL: numbered records which are durable when their append returns, read back from any Lsn.

Design: stack.md §4, docs/reference/wal.md. This is the side the event loop sees; the disk is the writer thread's. What
always holds:

- Records are numbered from 1 without holes, in the order of the calls. `first_lsn - 1 ≤ durable_lsn ≤ last_lsn`.
- Completions come on the loop, in the order of the calls, with one wake-up of the loop for a whole batch.
- The queue is bounded by `queue_bytes_max`: `append` waits for room, `submit` raises `Overloaded`.
- After the first failed write or fdatasync, whatever would write gets `WalPoisoned`; only a new `Wal.open` heals.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final

from penstock.kernel.errors import (
    AlreadyClosed,
    InvalidArgument,
    Overloaded,
    PenstockError,
    ShuttingDown,
    Written,
)
from penstock.kernel.ids import Lsn
from penstock.plumbing.ports.ports import Chance
from penstock.plumbing.ports.workers import SerialWorkers, SystemWorkers
from penstock.plumbing.wal.disk import Disk, LocalDisk
from penstock.plumbing.wal.options import WalOptions
from penstock.plumbing.wal.reader import WalReader
from penstock.plumbing.wal.records import Records
from penstock.plumbing.wal.recovery import Recovery
from penstock.plumbing.wal.segments import Segments
from penstock.plumbing.wal.state_file import StateFile
from penstock.plumbing.wal.statistics import TALLY, WalStatistics
from penstock.plumbing.wal.work import Done, Poison, WalJob, Work
from penstock.plumbing.wal.work_queue import Bytes, WorkQueue
from penstock.plumbing.wal.writer import WalWriter

__all__ = ["OnDurable", "Wal"]

READ_BYTES: Final = 1024 * 1024
OnDurable = Callable[[Lsn, PenstockError | None], None]  # told on the loop: durable up to this Lsn, or why not


class Wal:
    """An open WAL, of one folder, used from one event loop. `async with await Wal.open(folder) as wal:` closes it."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        options: WalOptions,
        segments: Segments,
        recovery: Recovery,
        workers: SerialWorkers,
    ) -> None:
        self.recovery: Final = recovery  # the result of recovery at the opening
        self._loop = asyncio.get_running_loop()
        self._segments = segments
        self._durable_lsn = recovery.last_lsn
        self._cuts: deque[Lsn] = deque()  # where truncations go which are not done yet
        self._trimmed_to = 0  # the highest Lsn of a trim
        self._is_poisoned = False
        self._closing: asyncio.Future[None] | None = None
        self._reader = WalReader(disk, segments)
        self._writer = WalWriter(segments, self._notify, folder=str(folder))
        self._writer.start(workers, options.mark_after_s)
        self._queue = WorkQueue(options, recovery.last_lsn, self._writer.put)

    @classmethod
    async def open(
        cls,
        folder: Path,
        options: WalOptions | None = None,
        *,
        disk: Disk | None = None,
        confirmed: int = 0,
        workers: SerialWorkers | None = None,
        chance: Chance | None = None,
    ) -> "Wal":
        """Recover what the folder holds, and make ready to append. `wal.recovery` tells the result of recovery.

        `confirmed`: the Lsn up to which a witness has seen the log durable. A log that ends before it is corrupt.

        Raises `WalCorrupt` where acknowledged records cannot be read back, `Unavailable` if the folder is in use,
        `DiskFull` or `StorageError` if the disk does not do its part. A torn tail is dropped, and reported.
        """
        options = options or WalOptions()
        options.check()
        disk = disk or LocalDisk()
        opening = asyncio.get_running_loop().run_in_executor(
            None, Segments.open, disk, folder, options.segment_bytes, confirmed, chance
        )
        try:
            segments, recovery = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_late)
            raise
        wal = cls(disk, folder, options, segments, recovery, workers or SystemWorkers())
        TALLY.add(wal.statistics, str(folder))
        return wal

    async def __aenter__(self) -> "Wal":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def first_lsn(self) -> Lsn:
        """The first record kept. One more than `last_lsn` if there is none."""
        return self._segments.first_lsn

    @property
    def last_lsn(self) -> Lsn:
        """The last record appended, durable or not."""
        return self._queue.last_lsn

    @property
    def durable_lsn(self) -> Lsn:
        """The last record which no crash can take away."""
        return min(self._durable_lsn, *self._cuts) if self._cuts else self._durable_lsn

    @property
    def statistics(self) -> WalStatistics:
        """Return the counters since it was opened."""
        return self._writer.statistics

    @property
    def queued_bytes(self) -> int:
        """Appended and not yet durable, with a little for every record."""
        return self._queue.queued_bytes

    def append(self, records: Sequence[Bytes]) -> "asyncio.Future[Lsn]":
        """Append records; the Lsn of the last one comes when all are durable. Waits while the queue is full.

        The order of the calls is the order of the records. An append whose wait is cancelled may still take place.
        """
        future: asyncio.Future[Lsn] = self._loop.create_future()
        if self._queue.put(records, future) is None:
            self._queue.wait(records, future)
        return future

    def submit(self, records: Sequence[Bytes], on_durable: OnDurable) -> Lsn:
        """Append records, and call back on the loop when all are durable, or with the error.

        Returns the Lsn of the last one.

        Raises `Overloaded` if the queue is full. Callbacks come in the order of submission.
        """
        told = _Told(on_durable)
        lsn = self._queue.put(records, told)
        if lsn is None:
            waiting = f"{self.queued_bytes} bytes wait to become durable"
            raise Overloaded(waiting, next_step="submit again when some are")
        told.lsn = lsn
        return lsn

    async def truncate(self, lsn: Lsn) -> None:
        """Drop every record behind `lsn`, and return when that is durable. A crash leaves all of them, or none.

        From the call on they are not durable any more, and no new read returns them.
        """
        await self._awaited(partial(self.submit_truncate, lsn))

    def submit_truncate(self, lsn: Lsn, on_durable: OnDurable) -> None:
        """Do the same as `truncate`, in the order of the calls, with a callback on the loop."""
        self._queue.check_open()
        first_lsn = max(self.first_lsn, self._trimmed_to)
        if not first_lsn - 1 <= lsn <= self.last_lsn:
            raise InvalidArgument(f"cannot truncate to lsn {lsn}: the log holds {first_lsn} to {self.last_lsn}")
        self._queue.last_lsn = lsn
        self._cuts.append(lsn)
        self._reader.on_cut(lsn)

        def on_done(error: PenstockError | None) -> None:
            if error is None:
                self._durable_lsn = self._cuts.popleft()
            _tell(on_durable, lsn, error)

        self._queue.put_job(WalJob(f"truncating to lsn {lsn}", partial(self._segments.truncate, lsn), on_done))

    async def trim(self, lsn: Lsn) -> None:
        """Drop records before `lsn`, a whole segment at a time: more may be kept than asked."""
        await self._awaited(partial(self.submit_trim, lsn))

    def submit_trim(self, lsn: Lsn, on_durable: OnDurable) -> None:
        """Do the same as `trim`, in the order of the calls, with a callback on the loop."""
        self._queue.check_open()
        if lsn > self.last_lsn + 1:
            raise InvalidArgument(f"cannot trim to lsn {lsn}: the log ends at {self.last_lsn}")
        self._trimmed_to = max(self._trimmed_to, lsn)

        def on_done(error: PenstockError | None) -> None:
            if self._trimmed_to == lsn:
                self._trimmed_to = Lsn(0)  # `first_lsn` is the first record that is kept from now on
            _tell(on_durable, lsn, error)

        self._queue.put_job(WalJob(f"trimming to lsn {lsn}", partial(self._segments.trim, lsn), on_done))

    async def save_state(self, file: StateFile, state: bytes) -> None:
        """Save a machine's state behind everything appended before, and before everything after."""
        await self._awaited(partial(self.submit_state, file, state))

    def submit_state(self, file: StateFile, state: bytes, on_durable: OnDurable) -> None:
        """Do the same as `save_state`, with a callback on the loop."""
        self._queue.check_open()
        file.check_size(state)
        job = WalJob(f"saving {file.path}", partial(file.save, state), partial(_tell, on_durable, self.last_lsn))
        self._queue.put_job(job)

    def submit_job(self, doing: str, run: Callable[[], None], on_durable: OnDurable) -> None:
        """Have the worker do something to the disk in its turn. If that fails, nothing is written any more."""
        self._queue.check_open()
        self._queue.put_job(WalJob(doing, run, partial(_tell, on_durable, self.last_lsn)))

    async def read(self, first_lsn: Lsn, *, bytes_max: int = READ_BYTES, include_unsynced: bool = False) -> Records:
        """Durable records from `first_lsn` on, up to `bytes_max` but at least one; none if there are no more.

        Raises `NotFound` for a trimmed record. `include_unsynced` also shows what is written and may still disappear.
        """
        self._check_readable(first_lsn)
        return await self._reader.read(first_lsn, self._limit(include_unsynced), bytes_max)

    def walk(
        self, first_lsn: Lsn, *, bytes_max: int = READ_BYTES, include_unsynced: bool = False
    ) -> AsyncIterator[Records]:
        """Read after read from `first_lsn` on, until there are no more.

        Raises `PreconditionFailed` if records are truncated which the walk has passed.
        """
        self._check_readable(first_lsn)
        return self._reader.walk(first_lsn, self._limit(include_unsynced), bytes_max)

    async def close(self) -> None:
        """Make the queue durable, mark the end of the log as such, and give the folder back."""
        if self._closing is None:
            self._queue.refuse(
                lambda: AlreadyClosed("the WAL is closed"),
                lambda: ShuttingDown("the WAL was closed while this append waited for room"),
            )
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        marked: asyncio.Future[Lsn] = self._loop.create_future()
        on_done = partial(_settle, marked, self.last_lsn)
        try:
            if not self._is_poisoned:
                self._queue.put_job(WalJob("marking the end of the log", self._segments.mark, on_done))
                await marked
        finally:
            self._writer.stop()
            await self._loop.run_in_executor(None, self._writer.join)
            TALLY.remove(self.statistics)

    def _check_readable(self, first_lsn: Lsn) -> None:
        if self._closing is not None:
            raise AlreadyClosed("the WAL is closed")  # its folder may have another owner by now
        if not 1 <= first_lsn <= self.last_lsn + 1:
            raise InvalidArgument(f"cannot read from lsn {first_lsn}: the log ends at {self.last_lsn}")

    def _limit(self, include_unsynced: bool) -> Callable[[], Lsn]:
        if include_unsynced:
            return lambda: Lsn(min(self._segments.written_lsn, *self._cuts, self.last_lsn))
        return lambda: self.durable_lsn

    async def _awaited(self, submit: Callable[[OnDurable], None]) -> None:
        future: asyncio.Future[Lsn] = self._loop.create_future()
        submit(partial(_settle, future))
        await future

    def _notify(self, done: Done) -> bool:
        """Called by the writer, in its thread."""
        try:
            self._loop.call_soon_threadsafe(self._on_done, done)
        except RuntimeError:
            return False  # the loop was closed, and the WAL was not
        return True

    def _on_done(self, done: Done) -> None:
        """The writer has come to the end of something."""
        work = done.work
        if done.poison is not None:
            self._on_poison(done, done.poison)
        elif isinstance(work, WalJob):
            work.on_done(None)
        else:
            self._durable_lsn = work.lsns[-1]
            for waiter, lsn in zip(work.waiters, work.lsns, strict=True):
                if not waiter.done():
                    waiter.set_result(lsn)
        self._queue.release(work)

    def _on_poison(self, done: Done, poison: Poison) -> None:
        """Tell everybody, each by an error of their own."""
        self._is_poisoned = True
        refusal = partial(poison.error, Written.NO)
        self._queue.refuse(refusal, refusal)
        _fail(done.work, partial(poison.error, done.written))
        for work in self._queue.drop_all():
            _fail(work, refusal)


def _fail(work: Work, make_error: Callable[[], PenstockError]) -> None:
    if isinstance(work, WalJob):
        work.on_done(make_error())
        return
    for waiter in work.waiters:
        if not waiter.done():
            waiter.set_exception(make_error())


class _Told:
    """A callback in the place of a future."""

    __slots__ = ("_on_durable", "lsn")

    def __init__(self, on_durable: OnDurable) -> None:
        self._on_durable = on_durable
        self.lsn = Lsn(0)

    def done(self) -> bool:
        return False

    def set_result(self, lsn: Lsn) -> None:
        _tell(self._on_durable, lsn, None)

    def set_exception(self, error: PenstockError) -> None:
        _tell(self._on_durable, self.lsn, error)


def _tell(on_durable: OnDurable, lsn: Lsn, error: PenstockError | None) -> None:
    """A callback that raises harms no other: the later ones are still called."""
    try:
        on_durable(lsn, error)
    except Exception as raised:
        context = {"message": f"told about lsn {lsn} of a WAL, and raised", "exception": raised}
        asyncio.get_running_loop().call_exception_handler(context)


def _settle(future: asyncio.Future[Lsn], lsn: Lsn, error: PenstockError | None) -> None:
    if future.done():
        return  # cancelled: the caller no longer waits
    if error is None:
        future.set_result(lsn)
    else:
        future.set_exception(error)


def _close_late(opening: asyncio.Future[tuple[Segments, Recovery]]) -> None:
    """The last user of this WAL is gone: give its folder back."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[0].close()
