"""The state of a Spool on disk: each save is one record behind the others; the last whole one counts.

    [length 4][crc32c 4][record]...       the first record says which boot of the machine wrote it

A save is one write and, if asked for, one fdatasync: a file which is replaced for each would take three. When the log
is long it is begun anew, under another name first, so that after any crash the old one or the new one is there whole.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Final

from penstock.kernel.errors import Written
from penstock.plumbing.wal.checksum import crc32c
from penstock.plumbing.wal.disk import storage_error

__all__ = ["StateLog", "boot_id", "sync_folder"]

_RECORD = Struct("<II")
_LOG_BYTES_MAX: Final = 1 << 20
_RECORD_BYTES_MAX: Final = 16 << 20
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> bytes:
    """Which start of the machine this is: what only the page cache holds lives that long. Empty: nobody knows."""
    try:
        return _BOOT_ID.read_bytes().strip()
    except OSError:
        return b""


class StateLog:
    """One state, in one file. Its calls block; they may come from several threads."""

    def __init__(self, path: Path, *, is_synced: bool, boot: bytes | None = None) -> None:
        self.path = path
        self._is_synced = is_synced
        self._boot = boot_id() if boot is None else boot
        self._fd: int | None = None
        self._size = 0
        self._lock = Lock()  # a Spool may be dropped while its last state is being saved

    def load(self) -> bytes | None:
        """The last state that was saved whole, if it can be trusted: synced, or of this very boot."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, f"reading {self.path}") from error
        records = list(_records(data))
        if len(records) < 2:
            return None
        is_ours = records[0] == b"synced" or (bool(self._boot) and records[0] == b"boot " + self._boot)
        return records[-1] if is_ours else None

    def save(self, state: bytes) -> None:
        """Add a state; return when it is as durable as was asked for."""
        assert len(state) <= _RECORD_BYTES_MAX
        with self._lock:
            try:
                self._save(state)
            except OSError as error:
                raise storage_error(error, f"saving {self.path}", written=Written.UNKNOWN) from error

    def _save(self, state: bytes) -> None:
        if self._fd is None or self._size > _LOG_BYTES_MAX:
            self._begin(state)
            return
        self._append(self._fd, state)
        if self._is_synced:
            os.fdatasync(self._fd)

    def _begin(self, state: bytes) -> None:
        self._close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(self.path.name + ".new")
        fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._fd, self._size = fd, 0
        self._append(fd, b"synced" if self._is_synced else b"boot " + self._boot)
        self._append(fd, state)
        if self._is_synced:
            os.fdatasync(fd)
        temporary.rename(self.path)
        if self._is_synced:
            sync_folder(self.path.parent)

    def _append(self, fd: int, record: bytes) -> None:
        data = _RECORD.pack(len(record), crc32c(record)) + record
        done = 0
        while done < len(data):
            done += os.pwrite(fd, data[done:], self._size + done)
        self._size += len(data)

    def remove(self) -> None:
        with self._lock:
            self._close()
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _records(data: bytes) -> Iterator[bytes]:
    """Up to the first which is torn."""
    at = 0
    while at + _RECORD.size <= len(data):
        length, crc = _RECORD.unpack_from(data, at)
        record = data[at + _RECORD.size : at + _RECORD.size + length]
        if len(record) < length or crc32c(record) != crc:
            return
        yield record
        at += _RECORD.size + length
