"""A store in an embedded SQLite database, which is recorded into a recovery log through a VFS.

The database is a file on the local disk, as fast as SQLite is; what makes it durable is the log. A transaction of the
shard is one of SQLite: at its end SQLite writes the changed pages, with the checkpoint's row among them, and `commit`
appends them to the log as one piece. So:

- The log holds whole transactions only, and what a playback builds is a database which SQLite had committed. That
  is why SQLite's own journal is kept in memory, and pages are not written before the end (`cache_spill`): there is
  nothing to roll back in the files, and nothing of it to be recorded.
- Nothing waits for the disk: after a crash the local file is thrown away, and built again.
- The next transaction is open while the one before is appended, and sees its changes.
- The database is rewritten into the log from time to time (`recording.py`), so that the log stays in proportion to it.

Fencing is the log's (`log_writer.py`): a process which was replaced cannot append, and so not commit.
"""

import itertools
from collections.abc import Callable
from typing import Final

import apsw

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.consumers.stores.recoverylog.recording import COPY_SUFFIX, Recording, RecordingBarrier
from penstock.consumers.stores.recoverylog.recording_vfs import RecordingVfs
from penstock.consumers.stores.recoverylog.recovery_log import RecoveryLog
from penstock.kernel.errors import InvalidArgument, StorageError

__all__ = ["SqliteStore"]

DATABASE: Final = "state.db"
TABLE: Final = "penstock_checkpoint"
_PRAGMAS: Final = (
    "PRAGMA journal_mode = MEMORY",
    "PRAGMA synchronous = OFF",
    "PRAGMA cache_spill = OFF",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA locking_mode = EXCLUSIVE",
)
_numbers = itertools.count(1)  # of VFSs: they are known by name to the whole process


class SqliteStore:
    """The application works with an `apsw.Connection` in a transaction which is open, and must not end it.

    `setup` makes the tables, in the first transaction of a new database.
    """

    def __init__(self, log: RecoveryLog, *, setup: Callable[[apsw.Connection], None] = lambda _: None) -> None:
        self.log = log
        self._setup = setup
        self._vfs: RecordingVfs | None = None
        self._connection: apsw.Connection | None = None
        self._recording: Recording | None = None
        self._is_open = False
        self._sealed: RecordingBarrier | None = None

    async def standby(self) -> None:
        """Be ready to restore soon: return when the log is played back, and continue to follow it."""
        await self.log.standby()

    async def restore(self) -> Checkpoint:
        """Take the recovery log over, open the database which it leads to, and read the checkpoint."""
        recording = self._recording = await self.log.restore()
        copy = recording.folder / f"{DATABASE}{COPY_SUFFIX}"
        if copy.exists():  # the process before us did not come to the end of rewriting it
            copy.unlink()
            recording.unlinked(copy.name)
        try:
            checkpoint = self._open(recording)
        except apsw.Error as error:
            raise StorageError(f"{self.log.name}: its database cannot be opened: {error}") from error
        await self.log.restored()
        return checkpoint

    def _open(self, recording: Recording) -> Checkpoint:
        name = f"penstock-{next(_numbers)}"
        self._vfs = RecordingVfs(name, recording)
        connection = self._connection = apsw.Connection(str(recording.folder.resolve() / DATABASE), vfs=name)
        for pragma in _PRAGMAS:
            connection.execute(pragma).fetchall()
        if not connection.table_exists(None, TABLE):
            self._begin(connection)
            connection.execute(f"CREATE TABLE {TABLE} (id INTEGER PRIMARY KEY CHECK (id = 1), checkpoint BLOB)")
            self._setup(connection)
            return Checkpoint()
        data = connection.execute(f"SELECT checkpoint FROM {TABLE}").get
        assert isinstance(data, bytes), "the table has no checkpoint"
        return Checkpoint.decode(data)

    async def transaction(self) -> apsw.Connection:
        """The database, in the open transaction."""
        assert self._connection is not None, "not restored"
        if not self._is_open:
            self._begin(self._connection)
        if not self._connection.in_transaction:
            raise InvalidArgument("the application ended the store's transaction; that is the shard's to do")
        return self._connection

    def _begin(self, connection: apsw.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        self._is_open = True

    async def seal(self, checkpoint: Checkpoint) -> None:
        """Commit to the local file, and take the frames recorded of it."""
        assert self._sealed is None, "the transaction before is not committed"
        assert self._recording is not None, "not restored"
        connection = await self.transaction()
        connection.execute(f"INSERT OR REPLACE INTO {TABLE} VALUES (1, ?)", (checkpoint.encode(),))
        connection.execute("COMMIT")
        self._is_open = False
        self._recording.rewrite(DATABASE)
        self._sealed = self._recording.barrier()

    async def commit(self) -> None:
        """Append the sealed frames to the log."""
        assert self._sealed is not None, "nothing is sealed"
        await self.log.commit(self._sealed)
        self._sealed = None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close(force=True)
        if self._vfs is not None:
            self._vfs.unregister()
            self._vfs = None
        await self.log.close()
