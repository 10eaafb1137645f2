"""The writer: one worker per WAL, which alone touches its files for writing.

It does one thing at a time. A group of appends becomes one batch: one write, one fdatasync, and one word to the loop.

The first failure poisons it: from then on nothing is written any more, and every waiter gets the error, each with the
facts about their own request. A failed fdatasync is never tried again, because a second one may succeed without having
written what the first one lost.
"""

from collections.abc import Callable
from time import perf_counter

from penstock.kernel.errors import InternalError, StorageError, Written
from penstock.plumbing.ports.workers import SerialWorkers
from penstock.plumbing.wal.disk import storage_error
from penstock.plumbing.wal.segments import Segments
from penstock.plumbing.wal.statistics import WalStatistics
from penstock.plumbing.wal.work import Done, Group, Poison, WalJob, Work

__all__ = ["WalWriter"]


class WalWriter:
    """The body of the worker. `notify` is called in it, once for each piece of work; False: its listener is gone."""

    def __init__(self, segments: Segments, notify: Callable[[Done], bool], *, folder: str) -> None:
        self.statistics = WalStatistics()
        self.tell = notify
        self._segments = segments
        self._folder = folder
        self._poison: Poison | None = None

    def start(self, workers: SerialWorkers, mark_after_s: float | None) -> None:
        """Begin to work. A log that is idle for a while marks its end: see `Segments.mark`."""
        worker = workers.start(f"wal {self._folder}", self, mark_after_s)
        self.put: Callable[[Work], None] = worker.put
        self.stop = worker.stop
        self.join = worker.join

    def idle(self) -> None:
        if self._poison is None:
            self._attempt("marking the end of the log", self._segments.mark)
            self.statistics.marks += 1

    def end(self) -> None:
        self._segments.close()

    def do(self, work: Work) -> Done:
        if self._poison is not None:
            return Done(work, self._poison, Written.NO)
        return self._commit(work) if isinstance(work, Group) else self._do_job(work)

    def _commit(self, group: Group) -> Done:
        if not self._attempt("beginning a segment", lambda: self._segments.make_room(group.queued_bytes)):
            return Done(group, self._poison, Written.NO)
        before = perf_counter()
        if not self._attempt("writing a batch", lambda: self._segments.write(group.records)):
            return Done(group, self._poison, Written.UNKNOWN)
        self.statistics.commit_seconds += perf_counter() - before
        self.statistics.batches += 1
        self.statistics.records += len(group.records)
        self.statistics.bytes += group.queued_bytes
        return Done(group)

    def _do_job(self, job: WalJob) -> Done:
        self.statistics.jobs += 1
        is_done = self._attempt(job.doing, job.run)
        return Done(job, self._poison, Written.YES if is_done else Written.UNKNOWN)

    def _attempt(self, doing: str, action: Callable[[], None]) -> bool:
        """Return whether it went well. If not, this was the last thing this writer has done."""
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
