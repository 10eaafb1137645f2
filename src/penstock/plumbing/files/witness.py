"""A witness: a small file that confirms how far another file had come. Design: integrity.md D13.

    [magic 8][version 4][length 4][serial 8][payload][crc32c 4]        at 0, and again at 2048

The two slots are written in turn, after each durable step of the other file: through a map of the file, or by a call of
the disk (`DiskWitness`). So a witness is never ahead. After the crash of a process it is exact, because the page cache
has it; after a power cut it may lag.

What always holds: a write that was interrupted leaves the other slot. `read` returns the newest whole slot.
"""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import Final, Protocol, Self

import google_crc32c

from penstock.kernel.errors import DataDamaged, StorageError
from penstock.kernel.formats import WITNESS, check_version
from penstock.plumbing.files.whole import create_whole

__all__ = ["PAYLOAD_MAX", "DiskWitness", "Witness", "read_witness"]

FILE_BYTES: Final = 4_096
SLOT_BYTES: Final = FILE_BYTES // 2
_HEAD: Final = Struct("<8sIIQ")
_CRC: Final = Struct("<I")
PAYLOAD_MAX: Final = SLOT_BYTES - _HEAD.size - _CRC.size


class _Disk(Protocol):
    """The calls of a disk that a witness needs."""

    def open(self, path: Path) -> int: ...

    def create(self, path: Path) -> int: ...

    def close(self, fd: int) -> None: ...

    def pread(self, fd: int, count: int, at: int) -> bytes: ...

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int: ...

    def fdatasync(self, fd: int) -> None: ...


class Witness:
    """One witness, open for writing. Of several writers, in one process or many, only one may write at a time."""

    def __init__(self, path: Path, map_: mmap.mmap) -> None:
        self.path = path
        self._map = map_

    @classmethod
    def open(cls, path: Path, first: bytes = b"") -> Self:
        """Open a witness, and make it with the payload `first` if it is missing. It is durable then."""
        with _errors(path):
            create_whole(path, _slot(1, first) + bytes(SLOT_BYTES))
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                if os.fstat(fd).st_size != FILE_BYTES:
                    raise _damaged(path, f"it has {os.fstat(fd).st_size} bytes, not {FILE_BYTES}")
                return cls(path, mmap.mmap(fd, FILE_BYTES))
            finally:
                os.close(fd)

    def write(self, payload: bytes) -> None:
        """Confirm this from now on."""
        first, second = _serial(self._map[:SLOT_BYTES]), _serial(self._map[SLOT_BYTES:])
        data = _slot(max(first, second) + 1, payload)
        at = 0 if first <= second else SLOT_BYTES
        self._map[at : at + len(data)] = data

    def sync(self) -> None:
        """Make the last write durable."""
        with _errors(self.path):
            self._map.flush()

    def close(self) -> None:
        self._map.close()


class DiskWitness:
    """A witness that is written by calls of a disk, by one thread. If such a write fails, the witness lags, and its log
    continues.
    """

    def __init__(self, disk: _Disk, path: Path) -> None:
        self.path = path
        self._disk = disk
        self._fd: int | None = None
        self._serial = 0

    def read(self) -> bytes | None:
        """Return the newest whole slot; None without one."""
        try:
            fd = self._disk.open(self.path)
        except FileNotFoundError:
            return None
        try:
            data = self._disk.pread(fd, FILE_BYTES, 0)
        finally:
            self._disk.close(fd)
        newest = max((data[:SLOT_BYTES], data[SLOT_BYTES:]), key=_serial)
        self._serial = _serial(newest)
        if not self._serial:
            return None
        return newest[_HEAD.size : _HEAD.size + _HEAD.unpack_from(newest)[2]]

    def write(self, payload: bytes) -> None:
        """Confirm this from now on. The folder must exist."""
        self._serial += 1
        data = _slot(self._serial, payload).ljust(SLOT_BYTES, b"\0")
        with suppress(OSError):
            if self._fd is None:
                self._fd = self._opened()
            self._disk.pwrite(self._fd, data, SLOT_BYTES * (self._serial % 2))

    def sync(self) -> None:
        """Make the last write durable."""
        if self._fd is not None:
            self._disk.fdatasync(self._fd)

    def close(self) -> None:
        if self._fd is not None:
            self._disk.close(self._fd)
            self._fd = None

    def _opened(self) -> int:
        try:
            return self._disk.open(self.path)
        except FileNotFoundError:
            return self._disk.create(self.path)


def read_witness(path: Path) -> bytes | None:
    """Return what a witness confirms; None if there is no file. Only reads.

    `DataDamaged`: neither slot is whole. `FormatTooNew`: another release wrote it.
    """
    try:
        with _errors(path):
            data = path.read_bytes()
    except FileNotFoundError:
        return None
    slots = [data[:SLOT_BYTES], data[SLOT_BYTES:FILE_BYTES]]
    newest = max(slots, key=_serial)
    if not _serial(newest):
        for slot in slots:
            _check_version(slot, path)
        raise _damaged(path, "neither of its two records is whole")
    length = _HEAD.unpack_from(newest)[2]
    return newest[_HEAD.size : _HEAD.size + length]


def _slot(serial: int, payload: bytes) -> bytes:
    assert len(payload) <= PAYLOAD_MAX, len(payload)
    body = _HEAD.pack(WITNESS.magic, WITNESS.version, len(payload), serial) + payload
    data = body + _CRC.pack(google_crc32c.value(body))
    return data.ljust(SLOT_BYTES, b"\0") if serial == 1 else data


def _serial(slot: bytes) -> int:
    """The number of a slot; 0 if it is not whole."""
    if len(slot) < _HEAD.size + _CRC.size:
        return 0
    magic, version, length, serial = _HEAD.unpack_from(slot)
    end = _HEAD.size + length
    if magic != WITNESS.magic or version != WITNESS.version or length > PAYLOAD_MAX:
        return 0
    (crc,) = _CRC.unpack_from(slot, end)
    return int(serial) if google_crc32c.value(slot[:end]) == crc else 0


def _check_version(slot: bytes, path: Path) -> None:
    if len(slot) >= _HEAD.size and slot.startswith(WITNESS.magic):
        version = _HEAD.unpack_from(slot)[1]
        if version > WITNESS.version:
            check_version(WITNESS, version, str(path))


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}", file=str(path)) from error


def _damaged(path: Path, why: str) -> DataDamaged:
    return DataDamaged(
        f"{path} is not the file that Penstock wrote: {why}", next_step=f"penstock fsck {path.parent}", file=str(path)
    )
