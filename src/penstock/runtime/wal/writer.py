"""The writer: one thread per WAL, which does group commit.

The loop hands it work through a queue; it takes all appends which wait there, writes them as one batch with one
fdatasync, and tells the loop once. Truncations, trims and saved states run in the same thread, in the queue's order.

The first failure poisons it: from then on nothing is written any more, and everybody is told so, each with what is
known about their own request. A failed fdatasync is never tried again, because a second one may succeed without having
written what the first one lost.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Protocol

import msgspec

from penstock.base.errors import InternalError, PenstockError, StorageError, WalPoisoned, Written
from penstock.base.ids import Lsn
from penstock.runtime.wal.disk import storage_error
from penstock.runtime.wal.segments import Segments
from penstock.runtime.wal.statistics import WalStatistics

__all__ = ["Done", "Group", "Job", "Poison", "Waiter", "Writer"]


class Waiter(Protocol):
    """Who waits for records to become durable: a future, or something which behaves as one."""

    def done(self) -> bool:
        """Whether they have been told, or do not wait any more."""
        ...

    def set_result(self, lsn: Lsn, /) -> None:
        """Theirs are durable, the last of them has this Lsn."""
        ...

    def set_exception(self, error: PenstockError, /) -> None:
        """Why theirs are not."""
        ...


class Group:
    """Appends of one turn of the loop. Filled on the loop, then handed over; the loop gets it back when it is done.

    Three lists rather than one of entries: they are filled by every append, and the collector has less to look at.
    """

    __slots__ = ("lsns", "queued_bytes", "records", "waiters")

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.waiters: list[Waiter] = []
        self.lsns: list[Lsn] = []  # for each waiter the last of theirs
        self.queued_bytes = 0  # payloads and index


class Job(msgspec.Struct, frozen=True):
    """Something else to be done to the disk in its turn."""

    doing: str
    run: Callable[[], None]
    on_done: Callable[[PenstockError | None], None]


class Poison(msgspec.Struct, frozen=True):
    """Why nothing is written any more."""

    cause: PenstockError
    folder: str

    def error(self, written: Written) -> WalPoisoned:
        """For one waiter, with what is known about their request."""
        said = {
            Written.NO: "This request was not begun.",
            Written.UNKNOWN: "This request may be on disk, wholly or in part.",
            Written.YES: "This request is done.",
        }[written]
        error = WalPoisoned(
            f"the WAL in {self.folder} takes no more writes: {self.cause.message}. {said}",
            written=written,
            next_step=f"{self.cause.next_step or 'stop the process'}; recovery will say what is there",
            cause=self.cause.code,
        )
        error.__cause__ = self.cause
        return error


class Done(msgspec.Struct, frozen=True):
    """Work which has come to its end, well or badly."""

    groups: list[Group]
    job: Job | None = None
    poison: Poison | None = None
    written: Written = Written.YES


class Writer:
    """The thread and its queue. `notify` is called in the thread, once per batch or job; False: nobody listens."""

    def __init__(
        self,
        segments: Segments,
        notify: Callable[[Done], bool],
        *,
        folder: str,
        batch_bytes_max: int,
        mark_after_s: float | None,
    ) -> None:
        self.statistics = WalStatistics()
        self._segments = segments
        self._notify = notify
        self._folder = folder
        self._batch_bytes_max = batch_bytes_max
        self._mark_after_s = mark_after_s
        self._queue: SimpleQueue[Group | Job | None] = SimpleQueue()
        self._next: list[Job | None] = []  # taken from the queue behind a batch, not yet done
        self._poison: Poison | None = None
        self._thread = Thread(target=self._run, name=f"wal {folder}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, work: Group | Job) -> None:
        """Queue work. From the loop's thread only."""
        self._queue.put(work)

    def stop(self) -> None:
        """Let the thread finish what is queued, close the files and end."""
        self._queue.put(None)

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            while (work := self._take()) is not None:
                done = self._do_job(work) if isinstance(work, Job) else self._commit(work)
                if not self._notify(done):
                    break
        finally:
            self._segments.close()

    def _take(self) -> list[Group] | Job | None:
        """All appends which wait, up to a batch; or the next job; or None at the end."""
        work = self._next.pop() if self._next else self._wait()
        if not isinstance(work, Group):
            return work
        groups = [work]
        room = self._batch_bytes_max - work.queued_bytes
        while room > 0 and not self._queue.empty():
            more = self._queue.get()
            if not isinstance(more, Group):
                self._next.append(more)
                break
            groups.append(more)
            room -= more.queued_bytes
        return groups

    def _wait(self) -> Group | Job | None:
        """The next thing in the queue. A log which falls idle marks its end: see `Segments.mark`."""
        try:
            return self._queue.get(timeout=self._mark_after_s)
        except Empty:
            if self._poison is None:
                self._attempt("marking the end of the log", self._segments.mark)
                self.statistics.marks += 1
            return self._queue.get()

    def _commit(self, groups: list[Group]) -> Done:
        records = groups[0].records
        for group in groups[1:]:
            records += group.records
        body_bytes = sum(group.queued_bytes for group in groups)
        if self._poison is not None:
            return Done(groups, poison=self._poison, written=Written.NO)
        if not self._attempt("beginning a segment", lambda: self._segments.make_room(body_bytes)):
            return Done(groups, poison=self._poison, written=Written.NO)
        before = perf_counter()
        if not self._attempt("writing a batch", lambda: self._segments.write(records)):
            return Done(groups, poison=self._poison, written=Written.UNKNOWN)
        self.statistics.commit_seconds += perf_counter() - before
        self.statistics.batches += 1
        self.statistics.records += len(records)
        self.statistics.bytes += body_bytes
        return Done(groups)

    def _do_job(self, job: Job) -> Done:
        if self._poison is not None:
            return Done([], job, self._poison, Written.NO)
        self.statistics.jobs += 1
        is_done = self._attempt(job.doing, job.run)
        return Done([], job, self._poison, Written.YES if is_done else Written.UNKNOWN)

    def _attempt(self, doing: str, action: Callable[[], None]) -> bool:
        """Whether it went well. If not, this was the last thing this writer has done."""
        try:
            action()
        except OSError as error:
            self._poison = Poison(storage_error(error, doing, written=Written.UNKNOWN), self._folder)
        except StorageError as error:
            self._poison = Poison(error, self._folder)
        except Exception as error:
            cause = InternalError(f"{doing} failed by a defect: {error!r}")
            cause.__cause__ = error
            self._poison = Poison(cause, self._folder)
        return self._poison is None
