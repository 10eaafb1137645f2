"""The state of a Spool on disk: each save is one record after the others; the last whole one counts.

    [length 4][crc32c 4][record]...       the first record says which boot of the machine wrote it

A save is one write and, if asked for, one fdatasync: a file which is replaced for each would take three. When the log
is long a new one is begun, under another name first, so that after any crash the old one or the new one is whole.

A record is a whole state, so damage before the last one hides nothing. The last one may be torn by a crash, and then
it was not acknowledged; if it is damaged in another way, no state can be trusted.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Final

from penstock.kernel.errors import FormatTooNew, Written
from penstock.plumbing.ports.disk import FileSystem, is_full
from penstock.plumbing.wal.checksum import crc32c
from penstock.plumbing.wal.disk import storage_error

__all__ = ["StateLog"]

_RECORD = Struct("<II")
_LOG_BYTES_MAX: Final = 1 << 20
_RECORD_BYTES_MAX: Final = 16 << 20
_RESERVED_BYTES: Final = 64 << 10  # ahead of the last record
_ROOM_RECORDS: Final = 8  # for how many states like the last one there is room before content is taken
_SECTOR: Final = 512


class StateLog:
    """One state, in one file. Its calls block; they may come from several threads."""

    def __init__(self, disk: FileSystem, path: Path, *, is_synced: bool, boot: bytes) -> None:
        self.path = path
        self.problem = ""  # why `load` has found no state, although there is a file
        self._is_synced = is_synced
        self._boot = boot
        self._disk = disk
        self._fd: int | None = None
        self._size = 0
        self._reserved = 0
        self._longest = 0  # record
        self._lock = Lock()  # a Spool may be dropped while its last state is being saved

    def load(self) -> bytes | None:
        """The last state that was saved whole, if it can be trusted: synced, or of this very boot.

        `FormatTooNew` if another release has begun the file.
        """
        self.problem = ""
        try:
            data = self._disk.read_file(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, f"reading {self.path}") from error
        first, last = _first_and_last(data)
        if first is None:
            self.problem = "the first record of its state is damaged"
        elif first != b"synced" and not first.startswith(b"boot "):
            raise FormatTooNew(
                f"{self.path} was written by another release: its first record is {first[:40]!r}",
                next_step="start the release that wrote it",
                path=str(self.path),
            )
        elif last is None:
            self.problem = "the last record of its state is damaged"
        elif first != b"synced" and not (self._boot and first == b"boot " + self._boot):
            self.problem = "it was not synced, and the machine has been restarted"
        return None if self.problem else last

    def states(self) -> list[bytes]:
        """Every state that can be read, oldest first, whether it can be trusted or not."""
        try:
            return [record for at, record in _whole_records(self._disk.read_file(self.path)) if at]
        except OSError:
            return []

    def reserve(self) -> None:
        """Reserve room for the next states; raise the system's error if there is none."""
        wanted = self._size + _ROOM_RECORDS * (self._longest + _RECORD.size)
        if self._fd is None or wanted <= self._reserved or not self._lock.acquire(blocking=False):
            return  # a save is running, and makes room itself: there is some, for else it was noticed before
        try:
            self._make_room(wanted)
        finally:
            self._lock.release()

    def _make_room(self, wanted: int) -> None:
        if self._fd is None or wanted <= self._reserved:
            return
        at = min(self._reserved, self._size)
        try:
            self._disk.reserve(self._fd, at, wanted + _RESERVED_BYTES - at)
            self._reserved = wanted + _RESERVED_BYTES
        except OSError as error:
            if not is_full(error):
                raise
            self._disk.reserve(self._fd, at, wanted - at)
            self._reserved = wanted

    def save(self, state: bytes) -> None:
        """Add a state; return when it is as durable as was asked for."""
        assert len(state) <= _RECORD_BYTES_MAX
        with self._lock:
            try:
                self._save(state)
            except OSError as error:
                raise storage_error(error, f"saving {self.path}", written=Written.UNKNOWN) from error

    def _save(self, state: bytes) -> None:
        if self._fd is None or (self._size > _LOG_BYTES_MAX and self._has_room_for_new()):
            self._begin(state)
            return
        self._size = self._append(self._fd, self._size, state)
        if self._is_synced:
            self._disk.fdatasync(self._fd)

    def _has_room_for_new(self) -> bool:
        """Return whether there is room for another file. On a full disk there may still be room in the old one."""
        return self._disk.free_bytes(self.path.parent) > 2 * (self._longest + _SECTOR)

    def _begin(self, state: bytes) -> None:
        """Begin another file. The old one counts until the new one has its name."""
        self._disk.make_folders(self.path.parent)
        temporary = self.path.with_name(self.path.name + ".new")
        fd = self._disk.create(temporary)
        try:
            size = self._append(fd, 0, b"synced" if self._is_synced else b"boot " + self._boot)
            size = self._append(fd, size, state)
            if self._is_synced:
                self._disk.fdatasync(fd)
            self._disk.rename(temporary, self.path)
        except BaseException:
            self._disk.close(fd)
            raise
        self._close()
        self._fd, self._size = fd, size
        if self._is_synced:
            self._disk.fsync_folder(self.path.parent)

    def _append(self, fd: int, at: int, record: bytes) -> int:
        """Write a record; return where the next one goes."""
        data = _RECORD.pack(len(record), crc32c(record)) + record
        self._longest = max(self._longest, len(record))
        done = 0
        while done < len(data):
            done += self._disk.pwrite(fd, data[done:], at + done)
        return at + len(data)

    def remove(self) -> None:
        with self._lock:
            self._close()
            self._disk.remove(self.path)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._fd is not None:
            self._disk.close(self._fd)
            self._fd = None
        self._reserved = 0


def _first_and_last(data: bytes) -> tuple[bytes | None, bytes | None]:
    """Return the first record and the last state, each None if it is damaged or missing."""
    records = list(_whole_records(data))
    if not records or records[0][0] != 0:
        return None, None
    (_, first), (at, last) = records[0], records[-1]
    end = at + _RECORD.size + len(last)
    if len(records) < 2 or not _is_torn(data, end):
        return first, None
    return first, last


def _whole_records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Return every record that has its sum, with its place. Damaged bytes between them are skipped."""
    at = 0
    while at + _RECORD.size <= len(data):
        length, crc = _RECORD.unpack_from(data, at)
        record = data[at + _RECORD.size : at + _RECORD.size + length]
        if 0 < length == len(record) and crc32c(record) == crc:
            yield at, record
            at += _RECORD.size + length
        elif crc32c(data[at + _RECORD.size :]) == crc and at + _RECORD.size < len(data):
            yield at, data[at + _RECORD.size :]  # the last one: only its length is damaged
            return
        else:
            at += 1


def _is_torn(data: bytes, at: int) -> bool:
    """Return whether a crash interrupted the write of the bytes after the last whole record.

    Then they are cut short, or a sector of them never reached the disk. Any others were changed after a whole write.
    """
    rest = len(data) - at
    if rest < _RECORD.size or _RECORD.size + _RECORD.unpack_from(data, at)[0] > rest:
        return True
    edges = [at, *range(at - at % _SECTOR + _SECTOR, len(data), _SECTOR), len(data)]
    return any(not any(data[one:other]) for one, other in pairwise(edges))
