"""The queue before the writer: numbers records, gathers appends into groups while it is busy, bounds what waits.

It lives on the loop, and `put` is on the way of every append: it does little, and what can be done once per group is
not done there. What always holds:

- Records are numbered in the order in which they are put; groups and jobs are handed over in that order.
- The writer has at most one piece of work. While it is busy, appends gather into the next group, so that a slow disk
  makes large batches; when it is idle, a group is handed over behind everything that is ready to run in the same turn
  of the loop. (Two threads which both have work would only fight for the interpreter's lock.)
- `queued_bytes ≤ queue_bytes_max`. A waiter without room may wait for it; then no other is let in before them.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from penstock.kernel.errors import InvalidArgument, LimitExceeded, PenstockError
from penstock.kernel.ids import Lsn
from penstock.plumbing.wal.batch import INDEX_BYTES
from penstock.plumbing.wal.options import WalOptions
from penstock.plumbing.wal.work import Group, Waiter, WalJob, Work

__all__ = ["Bytes", "WorkQueue"]

Bytes = bytes | bytearray | memoryview
Refusal = Callable[[], PenstockError]  # a new error each time: each is raised somewhere else


class WorkQueue:
    """The work that is queued and not yet durable."""

    def __init__(self, options: WalOptions, last_lsn: Lsn, hand_over: Callable[[Work], None]) -> None:
        self.last_lsn = last_lsn  # of the record put last
        self._loop = asyncio.get_running_loop()
        self._hand_over = hand_over
        self._record_bytes_max = options.record_bytes_max
        self._batch_bytes_max = options.batch_bytes_max
        self._queue_bytes_max = options.queue_bytes_max
        self._group = Group()  # still growing
        self._ready: deque[Work] = deque()  # before it, and complete
        self._is_busy = False  # the writer has work, or will have in this turn of the loop
        # Bytes are counted from the first record on, so that one sum and one comparison serve every purpose.
        self._put_bytes = 0
        self._released_bytes = 0
        self._grouped_bytes = 0  # of all groups before the growing one
        self._open_to_bytes = options.queue_bytes_max  # up to where there is room; -1 while the queue is closed
        self._waiting: deque[tuple[Sequence[Bytes], asyncio.Future[Lsn]]] = deque()  # for room
        self._refusal: Refusal | None = None

    @property
    def queued_bytes(self) -> int:
        """Put and not yet released: payloads and index."""
        return self._put_bytes - self._released_bytes

    def put(self, records: Sequence[Bytes], waiter: Waiter) -> Lsn | None:
        """Queue the records for a waiter; the Lsn of the last one. None if there is no room."""
        size = INDEX_BYTES * len(records)
        for record in records:
            if type(record) is not bytes:
                return self.put(_copies(records), waiter)
            size += len(record)
        if not 0 < size <= self._record_bytes_max:
            self._check_limits(records, size)
        put_bytes = self._put_bytes + size
        if put_bytes > self._open_to_bytes:
            self.check_open()
            return None
        self._put_bytes = put_bytes
        lsn: Lsn = self.last_lsn + len(records)  # type: ignore[assignment] # Lsn(…) would cost a call
        self.last_lsn = lsn
        group = self._group
        group.lsns.append(lsn)
        group.waiters.append(waiter)
        group.records += records  # type: ignore[arg-type] # the loop above has seen that they are bytes
        if put_bytes - self._grouped_bytes >= self._batch_bytes_max:
            self._complete_group()
        if not self._is_busy:
            self._begin()
        return lsn

    def put_job(self, job: WalJob) -> None:
        """Queue a job behind everything put before it."""
        self._complete_group()
        self._ready.append(job)
        if not self._is_busy:
            self._begin()

    def wait(self, records: Sequence[Bytes], future: "asyncio.Future[Lsn]") -> None:
        """Put the records as soon as there is room, after all earlier waiters."""
        self._waiting.append((_copies(records), future))
        self._open_to_bytes = -1

    def release(self, work: Work) -> None:
        """Note that the writer has finished this work: let in the waiters for room, and hand over the next."""
        if isinstance(work, Group):
            self._released_bytes += work.queued_bytes
        if self._refusal is None:
            self._admit()
        if self._ready:
            self._hand_over(self._ready.popleft())
        elif self._group.lsns:
            self._begin()
        else:
            self._is_busy = False

    def refuse(self, refusal: Refusal, to_those_who_wait: Refusal) -> None:
        """Let in no more work, nor the waiters for room."""
        self._refusal = self._refusal or refusal
        self._open_to_bytes = -1
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(to_those_who_wait())
        self._waiting.clear()

    def drop_all(self) -> list[Work]:
        """Return the queued work that was not handed over, and never will be."""
        self._complete_group()
        dropped = list(self._ready)
        self._ready.clear()
        return dropped

    def check_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal()

    def _begin(self) -> None:
        """Hand over behind everything that is ready to run now, so that all of it goes into one batch."""
        self._is_busy = True
        self._loop.call_soon(self._hand_over_next)

    def _hand_over_next(self) -> None:
        if not self._ready:
            self._complete_group()
        self._hand_over(self._ready.popleft())

    def _complete_group(self) -> None:
        if self._group.lsns:
            self._group.queued_bytes = self._put_bytes - self._grouped_bytes
            self._grouped_bytes = self._put_bytes
            self._ready.append(self._group)
            self._group = Group()

    def _admit(self) -> None:
        """Let in the waiters, first come first served, while there is room; then everybody."""
        self._open_to_bytes = self._released_bytes + self._queue_bytes_max
        while self._waiting:
            records, future = self._waiting[0]
            if not future.done() and self.put(records, future) is None:
                self._open_to_bytes = -1
                return
            self._waiting.popleft()

    def _check_limits(self, records: Sequence[Bytes], size: int) -> None:
        if not records:
            raise InvalidArgument("there is nothing to append")
        longest = max(map(len, records))
        if longest > self._record_bytes_max:
            raise LimitExceeded(
                f"a record of {longest} bytes is above the limit of {self._record_bytes_max}",
                next_step="split it, or raise record_bytes_max",
            )
        if size > self._queue_bytes_max:
            raise LimitExceeded(
                f"{len(records)} records of {size} bytes are above the limit of {self._queue_bytes_max}",
                next_step="append fewer at a time",
            )


def _copies(records: Sequence[Bytes]) -> list[Bytes]:
    """Return the records as they are now, as bytes that cannot change."""
    return [record if type(record) is bytes else bytes(memoryview(record)) for record in records]
