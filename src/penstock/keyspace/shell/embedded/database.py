"""The store's file: a connection to SQLite set up so that it never forgets, its tables, and what its errors mean.

A `Database` belongs to one thread. `synchronous=FULL` in WAL mode makes every commit wait for the disk: journals.md's
rules J1 to J5 are void on a KeySpace which forgets. Automatic checkpoints are off, since they may only run under the
writer lock.

    version   every value every key has had since the last compaction; a NULL value is a removal
    live      the keys which exist now, and the present version of each
    lease     the processes that must renew, until when, by which clock
    state     one row: format, identity, revision, the compaction, the last lease id
    digest    one row: a digest of the live keys, and the revision whose it is (see confirmed.py)
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.kernel.errors import DiskFull, KeySpaceForgot, Overloaded, PenstockError, StorageError, Written
from penstock.kernel.formats import KEYSPACE, check_version
from penstock.plumbing.files.versions import version_of

__all__ = ["Database", "check_format", "storage_errors"]

_FORMAT: Final = KEYSPACE.version
_APPLICATION: Final = int.from_bytes(KEYSPACE.magic, "big")  # "PENS": `file` tells it from other databases by that
_BUSY_MS: Final = 1_000  # only a foreign tool with the file open can make us wait: our own writers hold the lock
_WAL_BYTES_KEPT: Final = 8 << 20

_TABLES: Final = """
CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    store_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    compacted INTEGER NOT NULL,
    last_lease INTEGER NOT NULL
);
CREATE TABLE version (
    key BLOB NOT NULL,
    revision INTEGER NOT NULL,
    create_revision INTEGER NOT NULL,
    version INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    value BLOB,
    sum INTEGER,
    PRIMARY KEY (key, revision)
) WITHOUT ROWID;
CREATE INDEX version_by_revision ON version (revision);
CREATE TABLE live (key BLOB PRIMARY KEY, revision INTEGER NOT NULL, lease INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX live_by_lease ON live (lease) WHERE lease <> 0;
CREATE TABLE lease (id INTEGER PRIMARY KEY, ttl_ms INTEGER NOT NULL, clock TEXT NOT NULL, deadline_ns INTEGER NOT NULL);
CREATE TABLE digest (one INTEGER PRIMARY KEY CHECK (one = 1), revision INTEGER NOT NULL, digest BLOB NOT NULL);
"""
_SUMS: Final = (  # what a store of an older release lacks; older releases neither need nor harm it
    "ALTER TABLE version ADD COLUMN sum INTEGER",
    "CREATE TABLE digest (one INTEGER PRIMARY KEY CHECK (one = 1), revision INTEGER NOT NULL, digest BLOB NOT NULL)",
)


class Database:
    """One connection to the store's file, which is created if it does not exist. Open it with the writer lock held."""

    def __init__(self, path: Path, *, store_id: str, bytes_max: int, is_reader: bool = False) -> None:
        self.path = path
        with storage_errors(path):
            self.connection = sqlite3.connect(path, timeout=_BUSY_MS / 1000, isolation_level=None)
            try:
                self._prepare(store_id, bytes_max, is_reader)
            except BaseException:
                self.connection.close()
                raise
        stat = path.stat()
        self._file = (stat.st_dev, stat.st_ino)

    def check_file(self) -> None:
        """Refuse a file that no longer has its name: its writes would reach no other process."""
        try:
            stat = os.stat(self.path)
        except FileNotFoundError:
            raise KeySpaceForgot(f"{self.path} was removed while in use") from None
        if (stat.st_dev, stat.st_ino) != self._file:
            raise KeySpaceForgot(f"{self.path} was replaced while in use")

    def checkpoint(self) -> None:
        """Bring the WAL into the database file, as far as readers allow. Call it with the writer lock held."""
        self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def data_version(self) -> int:
        """Another number than before if any other connection, of any process, has committed since."""
        return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def used_bytes(self) -> int:
        pages, free, size = (
            self.connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def close(self) -> None:
        self.connection.close()

    def _prepare(self, store_id: str, bytes_max: int, is_reader: bool) -> None:
        execute = self.connection.execute
        execute("PRAGMA trusted_schema = OFF")
        execute("PRAGMA synchronous = FULL")
        execute("PRAGMA fullfsync = ON")  # macOS: without it fsync stops at the disk's cache
        if is_reader:
            execute("PRAGMA query_only = ON")
            return
        (mode,) = execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StorageError(f"{self.path}: this file system allows no WAL, which the KeySpace needs")
        execute("PRAGMA wal_autocheckpoint = 0")
        execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
        execute(f"PRAGMA max_page_count = {bytes_max // 4096}")
        self._make_tables(store_id)

    def _make_tables(self, store_id: str) -> None:
        execute = self.connection.execute
        (application,), (format_,) = (
            execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
        )
        if (application, format_) == (_APPLICATION, _FORMAT):
            if execute("SELECT 1 FROM sqlite_schema WHERE name = 'digest'").fetchone() is None:
                execute("BEGIN IMMEDIATE")
                for statement in _SUMS:
                    execute(statement)
                execute("COMMIT")
            return
        if application == _APPLICATION:
            check_version(KEYSPACE, format_, str(self.path))
        if execute("SELECT count(*) FROM sqlite_schema").fetchone() != (0,):
            raise StorageError(
                f"{self.path} is no KeySpace of this version (application {application:#x}, format {format_})",
                next_step="use another folder, or the version of Penstock which wrote it",
            )
        execute("BEGIN IMMEDIATE")
        for statement in _TABLES.split(";"):
            execute(statement)
        execute("INSERT INTO state VALUES (1, ?, 1, 0, 0)", (store_id,))
        execute(f"PRAGMA application_id = {_APPLICATION}")
        execute(f"PRAGMA user_version = {_FORMAT}")
        execute("COMMIT")
        _sync_folder(self.path.parent)


def check_format(path: Path) -> None:
    """Raise `FormatTooNew` if another release wrote the file. Only reads: SQLite would change it by opening it.

    So a release that writes another version must checkpoint it before it writes anything else.
    """
    found = version_of(KEYSPACE, path)
    if found:  # 0: made a moment ago, and its first page is still in the WAL
        check_version(KEYSPACE, found, str(path))


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def storage_errors(path: Path, *, written: Written = Written.NO) -> Iterator[None]:
    """Turn SQLite's errors into errors for the caller. `written` holds when the disk itself failed."""
    try:
        yield
    except sqlite3.Error as error:
        raise _meaning(error, path, written) from error
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", written=written) from error


def _meaning(error: sqlite3.Error, path: Path, written: Written) -> PenstockError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Overloaded(f"{path} is locked by a program which is not Penstock", next_step=f"fuser -v {path}")
    if code == sqlite3.SQLITE_FULL:  # SQLite has rolled back
        return DiskFull(f"{path}: {error}")
    return StorageError(f"{path}: {error}", written=written)
