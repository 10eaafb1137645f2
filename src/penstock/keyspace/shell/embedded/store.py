"""The embedded KeySpace: the port on one SQLite file, shared by the processes of one machine.

    store.sqlite   the database, in WAL mode (see database.py)
    witness        how far it has come (see confirmed.py)
    writer.lock    held around every write (see lock.py)
    wake/          one FIFO per process which listens (see wakeups.py)

A process that is killed at any moment leaves nothing half done: SQLite recovers the file, the kernel frees the lock,
its leases end by themselves, its FIFO is removed by the next who commits. Every process looks after the leases of all,
so one that lives is enough. The folder must be on a local file system: WAL mode shares memory between the processes.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Self, TypeVar

from penstock.kernel.errors import AlreadyClosed, InternalError, LeaseExpired, PenstockError, StorageError, Unavailable
from penstock.kernel.ids import MILLISECOND, Revision
from penstock.keyspace.core.limits import check_key, check_lease_ms, check_prefix, check_transaction
from penstock.keyspace.core.records import (
    NO_REVISION,
    KeySnapshot,
    KeySpaceStatus,
    KeyValue,
    Lease,
    LeaseId,
    LeaseStatus,
    WatchBatch,
)
from penstock.keyspace.core.transaction import Compare, Operation, Transaction, TransactOutcome
from penstock.keyspace.shell.embedded.clock import BootClock, LeaseClock
from penstock.keyspace.shell.embedded.database import Database, check_format
from penstock.keyspace.shell.embedded.lock import LOCK_FILE, WriterLock
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.queries import LeaseRow, Queries
from penstock.keyspace.shell.embedded.reader import StoreReader
from penstock.keyspace.shell.embedded.tending import DueLeases, KeyHistory
from penstock.keyspace.shell.embedded.wakeups import Wakeups
from penstock.keyspace.shell.embedded.watch import EmbeddedWatch
from penstock.keyspace.shell.embedded.writer import StoreWriter
from penstock.keyspace.shell.embedded.writes import Writes
from penstock.plumbing.process.logs import get_logger

__all__ = ["EmbeddedKeySpace"]

log = get_logger()
R = TypeVar("R")
Look = tuple[KeySpaceStatus, list[LeaseRow], int]  # and how many bytes are in use


class EmbeddedKeySpace:
    """A KeySpace in a folder. Make one with `open`."""

    def __init__(
        self, path: Path, lock: WriterLock, wakeups: Wakeups, options: EmbeddedOptions, clock: LeaseClock
    ) -> None:
        self._path = path
        self._lock = lock
        self._wakeups = wakeups
        self._options = options
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._writer = StoreWriter(path, lock, wakeups, options.requests_max, self._advance)
        self._reader = StoreReader(options.requests_max)
        self._due = DueLeases(clock)
        self._history = KeyHistory(options, clock)
        self._revision = NO_REVISION  # the newest that this process knows of
        self._advanced: asyncio.Future[None] = self._loop.create_future()
        self._look = asyncio.Event()
        self._last_look: tuple[int, Look] | None = None
        self._tending: asyncio.Task[None] | None = None
        self._failure: PenstockError | None = None

    @classmethod
    async def open(
        cls, folder: Path, options: EmbeddedOptions | None = None, *, clock: LeaseClock | None = None
    ) -> Self:
        """Open the KeySpace of a folder, and create it if missing. `FormatTooNew` if another release wrote it."""
        options = options or EmbeddedOptions()
        await asyncio.to_thread(check_format, folder / "store.sqlite")
        lock, wakeups = await asyncio.to_thread(_prepare, folder, options)
        keyspace = cls(folder / "store.sqlite", lock, wakeups, options, clock or BootClock())
        try:
            await keyspace._start()
        except BaseException:
            await keyspace._give_back()
            raise
        return keyspace

    async def _start(self) -> None:
        def database(*, is_reader: bool) -> Database:
            return Database(
                self._path, store_id=uuid.uuid4().hex, bytes_max=self._options.bytes_max, is_reader=is_reader
            )

        await self._writer.open(lambda: database(is_reader=False), self._clock)
        await self._reader.open(lambda: database(is_reader=True))
        await self._tend()  # a lease that ended unobserved ends before the first read
        self._loop.add_reader(self._wakeups.file, self._woken)
        self._tending = asyncio.create_task(self._keep_tending(), name="keyspace-tending")

    # Reading

    async def get(self, key: str, *, at: Revision | None = None) -> KeyValue | None:
        check_key(key)
        return await self._read(lambda queries: queries.get(key, at))

    async def range(self, prefix: str, *, at: Revision | None = None) -> KeySnapshot:
        check_prefix(prefix)
        return await self._read(lambda queries: queries.snapshot(prefix, at))

    async def status(self) -> KeySpaceStatus:
        return await self._read(Queries.status)

    async def changes(self, prefix: str, after: Revision) -> WatchBatch:
        """The next batch of a watch."""
        return await self._read(lambda queries: queries.changes(prefix, after, self._options.batch_changes_max))

    def watch(self, prefix: str, start: Revision) -> AbstractAsyncContextManager[EmbeddedWatch]:
        check_prefix(prefix)
        return EmbeddedWatch(self, prefix, start)

    async def wait_for_revision_above(self, revision: Revision) -> None:
        while self._revision <= revision:
            self._check_open()
            await asyncio.shield(self._advanced)

    # Writing

    async def transact(
        self, compares: Iterable[Compare] = (), then: Iterable[Operation] = (), otherwise: Iterable[Operation] = ()
    ) -> TransactOutcome:
        transaction = Transaction(tuple(compares), tuple(then), tuple(otherwise))
        check_transaction(transaction)
        return await self._write(lambda writes: writes.transact(transaction))

    async def compact(self, revision: Revision) -> None:
        await self._write(lambda writes: writes.compact(revision))

    # Leases

    async def grant_lease(self, ttl_ms: int) -> Lease:
        check_lease_ms(ttl_ms)
        return await self._write(lambda writes: writes.grant(ttl_ms))

    async def keep_alive(self, lease: LeaseId) -> Lease:
        asked_ns = self._clock.now_ns()
        renewed = await self._write(lambda writes: writes.keep_alive(lease, asked_ns))
        if renewed is None:
            raise LeaseExpired(f"lease {lease:x} was not renewed in time", lease=lease)
        return renewed

    async def revoke_lease(self, lease: LeaseId) -> None:
        await self._write(lambda writes: writes.revoke(lease))

    async def lease_status(self, lease: LeaseId) -> LeaseStatus:
        row, keys = await self._read(lambda queries: (queries.lease(lease), queries.keys_of(lease)))
        remaining_ms = self._due.remaining_ns(row) // MILLISECOND
        return LeaseStatus(lease, row.ttl_ms, max(0, remaining_ms), keys)

    # Life

    async def close(self) -> None:
        if self._tending is None:
            return
        tending, self._tending = self._tending, None
        self._loop.remove_reader(self._wakeups.file)
        tending.cancel()
        with suppress(asyncio.CancelledError):
            await tending
        self._wake_watches()
        await self._give_back()

    async def _give_back(self) -> None:
        try:
            await self._writer.close(self._reader.close)
        finally:
            self._wakeups.close()
            self._lock.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._tending is None:
            raise AlreadyClosed("the KeySpace is closed")

    async def _read(self, query: Callable[[Queries], R]) -> R:
        self._check_open()
        return await self._reader.do(query)

    async def _write(self, job: Callable[[Writes], R]) -> R:
        self._check_open()
        return await self._writer.do(job)

    # Looking after the store, and noticing what others did

    def _woken(self) -> None:
        self._wakeups.drain()
        self._look.set()

    def _advance(self, revision: int) -> None:
        if revision > self._revision:
            self._revision = Revision(revision)
            self._wake_watches()

    def _wake_watches(self) -> None:
        advanced, self._advanced = self._advanced, self._loop.create_future()
        advanced.set_result(None)

    async def _keep_tending(self) -> None:
        while self._failure is None:
            try:
                async with asyncio.timeout(self._options.poll_ms / 1000):
                    await self._look.wait()
            except TimeoutError:
                pass
            self._look.clear()
            try:
                await self._tend()
            except Unavailable as error:  # another process holds the lock: try again later
                log.info("keyspace is busy", reason=str(error))
            except PenstockError as error:
                self._fail(error)
            except Exception as error:
                self._fail(InternalError(f"{type(error).__name__}: {error}"))

    def _look_around(self, queries: Queries) -> Look:
        """On the reader's thread. As long as no data changes, this costs one cheap query, four times a second."""
        database = self._reader.database
        database.check_file()
        data_version = database.data_version()
        if self._last_look is None or self._last_look[0] != data_version:
            self._last_look = data_version, (queries.status(), queries.leases(), database.used_bytes())
        return self._last_look[1]

    def _fail(self, error: PenstockError) -> None:
        log.error("keyspace failed", reason=str(error))
        self._failure = error
        self._wake_watches()

    async def _tend(self) -> None:
        status, leases, used_bytes = await self._reader.do(self._look_around)
        self._advance(status.revision)
        due = self._due.find(leases)
        if due:
            await self._writer.do(lambda writes: writes.end_due(due))
        cut = self._history.cut(status, used_bytes)
        if cut is not None:
            await self._writer.do(lambda writes: writes.compact(cut))


def _prepare(folder: Path, options: EmbeddedOptions) -> tuple[WriterLock, Wakeups]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = WriterLock(folder / LOCK_FILE, options.lock_ms_max)
        try:
            return lock, Wakeups(folder / "wake")
        except BaseException:
            lock.close()
            raise
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}") from error
