"""Snapshots of a shard's state machine, one file each, named by their entry.

    <epoch>-<offset>.snapshot    magic 8 bytes | version 4 | crc 4 | the applier's bytes
    <epoch>-<offset>.part        a snapshot being received from a leader

A snapshot of level 0 (version 0) has no magic and no version.

A snapshot becomes visible by a rename, after its bytes are durable. Only the newest few are kept.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import TypeVar

import google_crc32c

from penstock.kernel.errors import WalCorrupt
from penstock.kernel.formats import SNAPSHOT, check_version
from penstock.kernel.ids import EntryId
from penstock.plumbing.ports.disk import FileSystem
from penstock.plumbing.wal.disk import write_fully

__all__ = ["Snapshots", "check_snapshot"]

T = TypeVar("T")
_HEADER = Struct("<8sII")  # magic, version, crc of the rest
_CRC = Struct("<I")  # all that a snapshot of version 0 begins with
KEPT = 2  # the newest, and the one before it, which a slow follower may still be reading


class Snapshots:
    """The snapshots in one folder. Blocking work runs in a thread."""

    def __init__(self, folder: Path, disk: FileSystem) -> None:
        self.folder = folder
        self._disk = disk

    async def take(self, head: EntryId, data: bytes, *, version: int = SNAPSHOT.version) -> None:
        """Store a snapshot; durable when this returns."""
        await _in_thread(lambda: self._take(head, data, version))

    async def read(self, head: EntryId, position: int, bytes_max: int) -> tuple[bytes | None, bool]:
        """Return a part of a stored snapshot, checksum included, and whether it is the last; None if it does
        not exist.
        """
        return await _in_thread(lambda: self._read(head, position, bytes_max))

    async def write(self, head: EntryId, position: int, data: bytes, *, is_last: bool) -> int:
        """Store a part of a received one; returns where the next part starts. The last one makes it durable."""
        return await _in_thread(lambda: self._write(head, position, data, is_last=is_last))

    async def load(self, head: EntryId) -> bytes:
        """The whole of a stored snapshot, checked; empty at the very beginning of a log."""
        if head.offset == 0:
            return b""
        return await _in_thread(lambda: self._load(head))

    async def keep_newest(self) -> None:
        await _in_thread(self._keep_newest)

    def _path(self, head: EntryId, suffix: str = "snapshot") -> Path:
        return self.folder / f"{head.epoch:010}-{head.offset:020}.{suffix}"

    def _take(self, head: EntryId, data: bytes, version: int) -> None:
        self._disk.make_folders(self.folder)
        part = self._path(head, "part")
        fd = self._disk.create(part)
        try:
            header = _header(data, version)
            write_fully(self._disk, fd, header, 0)
            write_fully(self._disk, fd, data, len(header))
            self._disk.fdatasync(fd)
        finally:
            self._disk.close(fd)
        self._publish(part, head)

    def _read(self, head: EntryId, position: int, bytes_max: int) -> tuple[bytes | None, bool]:
        try:
            fd = self._disk.open(self._path(head))
        except FileNotFoundError:
            return None, True
        try:
            size = self._disk.size(fd)
            data = self._disk.pread(fd, bytes_max, position)
        finally:
            self._disk.close(fd)
        return data, position + len(data) >= size

    def _write(self, head: EntryId, position: int, data: bytes, *, is_last: bool) -> int:
        self._disk.make_folders(self.folder)
        part = self._path(head, "part")
        fd = self._disk.create(part) if position == 0 else self._disk.open(part)
        try:
            write_fully(self._disk, fd, data, position)
            self._disk.ftruncate(fd, position + len(data))
            self._disk.fdatasync(fd)
        finally:
            self._disk.close(fd)
        if is_last:
            check_snapshot(self._disk.read_file(part), part)
            self._publish(part, head)
        return position + len(data)

    def _load(self, head: EntryId) -> bytes:
        path = self._path(head)
        try:
            return check_snapshot(self._disk.read_file(path), path)
        except FileNotFoundError:
            raise WalCorrupt(
                f"snapshot {path} is gone", next_step="swap this node: it cannot read back its log"
            ) from None

    def _publish(self, part: Path, head: EntryId) -> None:
        self._disk.rename(part, self._path(head))
        self._disk.fsync_folder(self.folder)

    def _keep_newest(self) -> None:
        found = self._disk.walk(self.folder)
        for old in [path for path in found if path.suffix == ".snapshot"][:-KEPT]:
            self._disk.remove(old)
        for part in [path for path in found if path.suffix == ".part"][:-1]:
            self._disk.remove(part)


def _header(data: bytes, version: int) -> bytes:
    crc: int = google_crc32c.value(data)
    return _HEADER.pack(SNAPSHOT.magic, version, crc) if version else _CRC.pack(crc)


def check_snapshot(data: bytes, path: Path) -> bytes:
    """Return the applier's bytes, or `WalCorrupt`; `FormatTooNew` if another release made the snapshot."""
    header: Struct = _HEADER if data.startswith(SNAPSHOT.magic) else _CRC
    fields = header.unpack_from(data) if len(data) >= header.size else ()
    if len(fields) == 3:
        check_version(SNAPSHOT, fields[1], str(path))
    body = data[header.size :]
    if not fields or google_crc32c.value(body) != fields[-1]:
        raise WalCorrupt(f"{path} does not match its checksum", next_step="swap this node: its snapshot is damaged")
    return body


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, work)
