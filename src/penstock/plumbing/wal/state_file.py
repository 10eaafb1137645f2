"""A state file: a small state which is replaced as a whole, and is after any crash either the old one or the new.

    magic 8 bytes | version 4 | length 4 | the state | crc 4          (docs/reference/wal.md#state-file)

A new state is written to a temporary file, made durable, and renamed over the old one.
"""

from pathlib import Path
from struct import Struct
from typing import Final

from penstock.kernel.errors import LimitExceeded, WalCorrupt, Written
from penstock.kernel.formats import NODE_STATE, FileKind, check_version
from penstock.plumbing.wal.checksum import has_crc, with_crc
from penstock.plumbing.wal.disk import Disk, LocalDisk, make_folder, read_fully, storage_error, write_fully
from penstock.plumbing.wal.segment import TEMPORARY

__all__ = ["STATE_BYTES_MAX", "StateFile"]

STATE_BYTES_MAX: Final = 16 * 1024 * 1024
_HEADER = Struct("<8sII")  # magic, version, length of the state


class StateFile:
    """One state, at one path. Its calls block, and only one may run at a time.

    A machine's state and its records must become durable in the order of its steps: see `Wal.save_state`.
    """

    def __init__(self, path: Path, disk: Disk | None = None, *, kind: FileKind = NODE_STATE) -> None:
        self.path = path
        self._kind = kind
        self._disk = disk or LocalDisk()

    def load(self) -> bytes | None:
        """Return the state last saved, or None if none ever was. `FormatTooNew` if another release saved it."""
        try:
            fd = self._disk.open(self.path)
            try:
                data = read_fully(self._disk, fd, _HEADER.size + STATE_BYTES_MAX + 5, 0)
            finally:
                self._disk.close(fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, f"reading {self.path}") from error
        return self._decode(data)

    def save(self, state: bytes) -> None:
        """Replace the state, and return when that is durable.

        If this fails, the file is the old state or the new one.
        """
        self.check_size(state)
        temporary = self.path.with_name(self.path.name + TEMPORARY)
        written = Written.NO
        try:
            make_folder(self._disk, self.path.parent)
            fd = self._disk.create(temporary)
            try:
                write_fully(self._disk, fd, self._encode(state), 0)
                self._disk.fdatasync(fd)
            finally:
                self._disk.close(fd)
            written = Written.UNKNOWN
            self._disk.rename(temporary, self.path)
            self._disk.fsync_folder(self.path.parent)
        except OSError as error:
            raise storage_error(error, f"saving {self.path}", written=written) from error

    def check_size(self, state: bytes) -> None:
        if len(state) > STATE_BYTES_MAX:
            raise LimitExceeded(f"a state of {len(state)} bytes is above the limit of {STATE_BYTES_MAX}")

    def _decode(self, data: bytes) -> bytes:
        if len(data) < _HEADER.size + 4:
            raise self._damaged("it is cut short")
        magic, version, length = _HEADER.unpack_from(data)
        if not has_crc(data):
            raise self._damaged("it does not match its checksum")
        if magic == self._kind.magic:
            check_version(self._kind, version, str(self.path))
        state = data[_HEADER.size : -4]
        if magic != self._kind.magic or length != len(state):
            raise self._damaged("it does not begin as a state file does")
        return state

    def _damaged(self, why: str) -> WalCorrupt:
        step = "keep the file for inspection, and restore this node from its peers or a backup"
        return WalCorrupt(f"{self.path} is damaged: {why}", next_step=step, file=str(self.path), byte=0, lsn=0)

    def _encode(self, state: bytes) -> bytes:
        return with_crc(_HEADER.pack(self._kind.magic, self._kind.version, len(state)) + state)
