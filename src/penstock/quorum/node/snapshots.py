"""Snapshots of a shard's state machine, one file each, named by the entry they stand at.

    <epoch>-<offset>.snapshot    crc 4 bytes | the applier's bytes        (complete, or not there)
    <epoch>-<offset>.part        a snapshot being received from a leader

A snapshot becomes visible by a rename, after its bytes are durable. Only the newest few are kept.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import google_crc32c

from penstock.kernel.errors import WalCorrupt
from penstock.kernel.ids import EntryId

__all__ = ["Snapshots"]

T = TypeVar("T")
CRC_BYTES = 4
KEPT = 2  # the newest, and the one before it, which a slow follower may still be reading


class Snapshots:
    """The snapshots in one folder. Blocking work runs in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def take(self, head: EntryId, data: bytes) -> None:
        """Store a snapshot; durable when this returns."""
        await _in_thread(lambda: self._take(head, data))

    async def read(self, head: EntryId, position: int, bytes_max: int) -> tuple[bytes | None, bool]:
        """A part of a stored snapshot, checksum included, and whether it is the last; None if it is not there."""
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

    def _take(self, head: EntryId, data: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self._path(head, "part")
        with part.open("wb") as file:
            file.write(google_crc32c.value(data).to_bytes(CRC_BYTES, "little"))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._publish(part, head)

    def _read(self, head: EntryId, position: int, bytes_max: int) -> tuple[bytes | None, bool]:
        try:
            with self._path(head).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                data = os.pread(file.fileno(), bytes_max, position)
        except FileNotFoundError:
            return None, True
        return data, position + len(data) >= size

    def _write(self, head: EntryId, position: int, data: bytes, *, is_last: bool) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self._path(head, "part")
        with part.open("wb" if position == 0 else "r+b") as file:
            file.seek(position)
            file.write(data)
            file.truncate()
            if is_last:
                file.flush()
            os.fsync(file.fileno())
        if is_last:
            _checked(part.read_bytes(), part)
            self._publish(part, head)
        return position + len(data)

    def _load(self, head: EntryId) -> bytes:
        path = self._path(head)
        try:
            return _checked(path.read_bytes(), path)
        except FileNotFoundError:
            raise WalCorrupt(
                f"snapshot {path} is gone", next_step="swap this node: it cannot read back its log"
            ) from None

    def _publish(self, part: Path, head: EntryId) -> None:
        part.rename(self._path(head))
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _keep_newest(self) -> None:
        for old in sorted(self.folder.glob("*.snapshot"))[:-KEPT]:
            old.unlink(missing_ok=True)
        for part in sorted(self.folder.glob("*.part"))[:-1]:
            part.unlink(missing_ok=True)


def _checked(data: bytes, path: Path) -> bytes:
    body = data[CRC_BYTES:]
    if len(data) < CRC_BYTES or google_crc32c.value(body) != int.from_bytes(data[:CRC_BYTES], "little"):
        raise WalCorrupt(f"{path} does not match its checksum", next_step="swap this node: its snapshot is damaged")
    return body


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, work)
