"""The disk as the WAL sees it: the few calls it makes, so that a test can fail or lose any one of them.

`LocalDisk` is the real one. Every method is one system call or nearly so, and raises what the system says (`OSError`);
what a failure means is decided by the caller. All of them block, and run in the WAL's threads, never on the loop.
"""

import errno
import os
from pathlib import Path
from typing import Protocol

from penstock.kernel.errors import DiskFull, StorageError, Unavailable, Written
from penstock.plumbing.ports.disk import LocalDisk

__all__ = ["Disk", "LocalDisk", "lock_folder", "make_folder", "read_fully", "storage_error", "write_fully"]

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, a quota, a limit on file sizes


class Disk(Protocol):
    """What a file system must offer to hold a WAL."""

    def mkdir(self, folder: Path) -> None:
        """Make the folder, whose parent must exist."""
        ...

    def names(self, folder: Path) -> list[str]:
        """Return the names in the folder, in no order."""
        ...

    def lock(self, path: Path) -> int:
        """Make the file if missing and lock it for this descriptor, or raise `BlockingIOError` if another has it."""
        ...

    def create(self, path: Path) -> int:
        """Return an empty file to read and write, in place of an old one."""
        ...

    def open(self, path: Path) -> int:
        """An existing file, to read and write."""
        ...

    def close(self, fd: int) -> None:
        """Give the descriptor back, and its lock if it had one."""
        ...

    def pread(self, fd: int, count: int, at: int) -> bytes:
        """Return up to `count` bytes; fewer do not mean the end of the file, none do."""
        ...

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int:
        """Write some of the bytes, and say how many."""
        ...

    def fallocate(self, fd: int, count: int) -> bool:
        """Reserve blocks for the first `count` bytes, which read as zeros. False where this cannot be done."""
        ...

    def ftruncate(self, fd: int, count: int) -> None:
        """Cut the file to `count` bytes."""
        ...

    def fdatasync(self, fd: int) -> None:
        """Return when the file's bytes, and the metadata to find them again, are durable."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Give the file another name, in place of any file which had it, at once."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove the name."""
        ...

    def fsync_folder(self, folder: Path) -> None:
        """Return when every name made, changed or removed in the folder is durable."""
        ...


def read_fully(disk: Disk, fd: int, count: int, at: int) -> bytes:
    """`count` bytes, or as many as there are before the end of the file."""
    data = disk.pread(fd, count, at)
    if len(data) == count or not data:
        return data
    parts = [data]
    done = len(data)
    while done < count:
        data = disk.pread(fd, count - done, at + done)
        if not data:
            break
        parts.append(data)
        done += len(data)
    return b"".join(parts)


def write_fully(disk: Disk, fd: int, data: bytes, at: int) -> None:
    """Read all the bytes, in as many calls as the system wants."""
    done = disk.pwrite(fd, data, at)
    while done < len(data):
        count = disk.pwrite(fd, memoryview(data)[done:], at + done)
        if count == 0:
            raise OSError(errno.EIO, "the system wrote nothing and gave no reason")
        done += count


def storage_error(error: OSError, doing: str, *, written: Written = Written.NO) -> StorageError:
    """Translate a failed call for the layers above: a full disk is not a broken one."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _NO_SPACE:
        step = "free space on the device of the data folder, then start again"
        return DiskFull(f"no space left while {doing}: {reason}", written=written, next_step=step, errno=error.errno)
    step = "look into the system log for the device, then start again"
    return StorageError(f"{doing} failed: {reason}", written=written, next_step=step, errno=error.errno)


def make_folder(disk: Disk, folder: Path) -> None:
    """Make the folder, and those above it, where missing."""
    try:
        disk.mkdir(folder)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_folder(disk, folder.parent)
        disk.mkdir(folder)
    disk.fsync_folder(folder.parent)


def lock_folder(disk: Disk, path: Path) -> int:
    """The lock of a folder, or an error which says who has it."""
    try:
        return disk.lock(path)
    except BlockingIOError:
        raise Unavailable(
            f"{path.parent} is in use: another process, or another part of this one, holds {path.name}",
            next_step=f"stop the process that has it open (see: fuser {path})",
            path=str(path),
        ) from None
