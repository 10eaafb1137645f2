"""The writer: one thread which takes what waits to be written, and commits it with one fsync.

Each job happens as a whole or is refused before it changes anything, and has a revision of its own; only the wait for
the disk is shared. A job is acknowledged when the commit that holds it is on the disk. A failure is reported exactly:
either nothing was written, or, when the disk itself failed during a commit, the outcome is unknown. After that, this
process does not write to the store any more.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from penstock.kernel.errors import AlreadyClosed, DiskFull, Overloaded, PenstockError, StorageError, Written
from penstock.keyspace.shell.embedded.clock import LeaseClock
from penstock.keyspace.shell.embedded.confirmed import NOTHING, WITNESS_FILE, check_store
from penstock.keyspace.shell.embedded.database import Database, storage_errors
from penstock.keyspace.shell.embedded.lock import WriterLock
from penstock.keyspace.shell.embedded.wakeups import Wakeups
from penstock.keyspace.shell.embedded.writes import Writes
from penstock.plumbing.files.witness import Witness

__all__ = ["StoreWriter"]

_BATCH_JOBS_MAX: Final = 64
_CHECKPOINT_BYTES: Final = 1 << 20  # the sooner the WAL is written over instead of growing, the cheaper its fsync

R = TypeVar("R")
Job = Callable[[Writes], Any]


class StoreWriter:
    """Runs jobs against the store, in the order they came."""

    def __init__(
        self, path: Path, lock: WriterLock, wakeups: Wakeups, jobs_max: int, committed: Callable[[int], None]
    ) -> None:
        self._path = path  # of the store
        self._lock = lock
        self._wakeups = wakeups
        self._jobs_max = jobs_max
        self._committed = committed  # called with the new revision, on the loop, before the waiting tasks resume
        self._waiting: deque[tuple[Job, asyncio.Future[Any]]] = deque()
        self._is_busy = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keyspace-writer")
        self._loop = asyncio.get_running_loop()
        self._database: Database | None = None
        self._writes: Writes
        self._witness: Witness | None = None
        self._poison: StorageError | None = None

    async def open(self, make: Callable[[], Database], clock: LeaseClock) -> None:
        def blocking() -> None:
            if not check_store(self._path):
                make()  # which refuses it
            self._witness = Witness.open(self._path.parent / WITNESS_FILE, NOTHING.encode())
            database = self._database = make()
            self._writes = Writes(database.connection, clock, str(self._path.parent))
            self._commit([])  # the first digest, if there is none
            self._witness.sync()

        await self._loop.run_in_executor(self._thread, self._locked, blocking)

    async def do(self, job: Callable[[Writes], R]) -> R:
        """Commit a job, and return its result."""
        if self._poison is not None:
            kind = type(self._poison)
            raise kind(f"not written to after an earlier failure: {self._poison}", written=Written.NO)
        if len(self._waiting) >= self._jobs_max:
            raise Overloaded(f"{self._jobs_max} writes already wait for the KeySpace")
        ended: asyncio.Future[R] = self._loop.create_future()
        self._waiting.append((job, ended))
        self._start()
        return await ended

    async def close(self, last: Callable[[], None]) -> None:
        """End after the jobs that have begun; jobs that still wait never happen. `last` runs with the lock held."""
        while self._waiting:
            ended = self._waiting.pop()[1]
            if not ended.done():
                ended.set_exception(AlreadyClosed("the KeySpace was closed before this was written"))

        def blocking() -> None:
            try:
                self._locked(last_of_all)
            except Overloaded:  # another process has the store open: SQLite checkpoints only when the last one closes
                last_of_all()

        def last_of_all() -> None:
            last()
            if self._database is not None:
                self._database.close()
            if self._witness is not None:
                self._witness.close()

        try:
            await self._loop.run_in_executor(self._thread, blocking)
        finally:
            self._thread.shutdown(wait=False)

    # On the loop

    def _start(self) -> None:
        if self._is_busy:
            return
        batch: list[tuple[Job, asyncio.Future[Any]]] = []
        while self._waiting and len(batch) < _BATCH_JOBS_MAX:
            job, ended = self._waiting.popleft()
            if not ended.done():  # its caller no longer waits for a cancelled job: it never happens
                batch.append((job, ended))
        if batch:
            self._is_busy = True
            self._thread.submit(self._run, batch)

    def _ended(self, batch: list[tuple[Job, asyncio.Future[Any]]], results: list[Any], revision: int) -> None:
        self._is_busy = False
        if revision:
            self._committed(revision)
        for (_, ended), result in zip(batch, results, strict=True):
            if ended.done():
                continue
            if isinstance(result, BaseException):
                ended.set_exception(result)
            else:
                ended.set_result(result)
        self._start()

    # On the writer's thread

    @property
    def database(self) -> Database:
        assert self._database is not None, "open comes first"
        return self._database

    def _run(self, batch: list[tuple[Job, asyncio.Future[Any]]]) -> None:
        revision = 0
        try:
            results, revision = self._locked(lambda: self._commit([job for job, _ in batch]))
            self._wakeups.wake_others()  # without the lock: a process that freezes here blocks no other
        except BaseException as error:
            self._note(error)
            results = [error] * len(batch)
        self._loop.call_soon_threadsafe(self._ended, batch, results, revision)

    def _locked(self, do: Callable[[], R]) -> R:
        self._lock.acquire()
        try:
            return do()
        finally:
            self._lock.release()

    def _commit(self, jobs: list[Job]) -> tuple[list[Any], int]:
        database = self.database
        path, execute = database.path, database.connection.execute
        database.check_file()
        with storage_errors(path):
            execute("BEGIN IMMEDIATE")
            try:
                self._writes.begin()
                results = [self._attempt(job) for job in jobs]
                confirmed = self._writes.confirm()
            except BaseException:
                self._roll_back()
                raise
        with storage_errors(path, written=Written.UNKNOWN):
            try:
                execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
        assert self._witness is not None
        self._witness.write(confirmed.encode())
        self._checkpoint()
        return results, confirmed.revision

    def _roll_back(self) -> None:
        if self.database.connection.in_transaction:  # a full disk made SQLite do it already
            self.database.connection.execute("ROLLBACK")

    def _note(self, error: BaseException) -> None:
        if isinstance(error, StorageError) and not isinstance(error, DiskFull):  # a full disk can be emptied
            self._poison = error

    def _attempt(self, job: Job) -> Any:
        """Do one job. It is refused before it has changed anything, so that it harms no other job of the batch."""
        connection = self.database.connection
        before = connection.total_changes
        try:
            return job(self._writes)
        except PenstockError as refused:
            assert connection.total_changes == before, "a refused job must have changed nothing"
            return refused

    def _checkpoint(self) -> None:
        """A failure here takes nothing back: all commits are in the WAL."""
        if self._writes.changed_bytes < _CHECKPOINT_BYTES:
            return
        self._writes.changed_bytes = 0
        try:
            with storage_errors(self.database.path):
                self.database.checkpoint()
        except PenstockError as error:
            self._note(error)
