"""The disk port: every file of a role is reached through it, so that a simulator can fail, lose or tear any call.

`LocalDisk` is the real one. Every method is one system call or nearly so, and raises what the system says (`OSError`);
what a failure means is decided by the caller. All of them block. A `Path` is a name here: it opens no file.

    disk = LocalDisk()
    fd = disk.create(folder / "state")
    disk.pwrite(fd, b"...", 0)
    disk.fdatasync(fd)
"""

import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Protocol

__all__ = ["FileSystem", "LocalDisk", "is_full"]

MARGIN_BYTES: Final = 16 << 20  # kept free where nothing can be reserved, because others may write too
_KEEP_SIZE: Final = 1
_NOT_SUPPORTED: Final = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@cache
def _fallocate() -> Callable[[int, int, int, int], int] | None:
    """Return the system's call, if it has one. A client that reserves nothing does not load ctypes."""
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)
    if call is None:
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    return lambda *arguments: ctypes.get_errno() if call(*arguments) else 0


def is_full(error: OSError) -> bool:
    """Return whether a call failed for lack of room, and may succeed later."""
    return error.errno in _FULL


class FileSystem(Protocol):
    """What a role needs of the disk of its data folder."""

    # Names

    def mkdir(self, folder: Path) -> None:
        """Make the folder, whose parent must exist."""
        ...

    def make_folders(self, folder: Path) -> None:
        """Make the folder and those above it, as far as they are missing."""
        ...

    def names(self, folder: Path) -> list[str]:
        """Return the names in the folder, in no order."""
        ...

    def walk(self, folder: Path) -> list[Path]:
        """Return every file below the folder, sorted; none if there is no folder."""
        ...

    def exists(self, path: Path) -> bool:
        """Return whether a file or a folder has this name."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Give the file another name, in place of any file which had it, at once."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove the name."""
        ...

    def remove(self, path: Path) -> None:
        """Remove the name, if there is one."""
        ...

    def remove_tree(self, folder: Path) -> None:
        """Remove a folder with all it holds, as far as that is possible."""
        ...

    def fsync_folder(self, folder: Path) -> None:
        """Return when every name made, changed or removed in the folder is durable."""
        ...

    def temporary(self, folder: Path | None) -> int:
        """Return an empty file without a name, in this folder or where the machine keeps such files."""
        ...

    def lock(self, path: Path) -> int:
        """Make the file if missing and lock it for this descriptor, or raise `BlockingIOError` if another has it."""
        ...

    # Files

    def create(self, path: Path) -> int:
        """Return an empty file to read and write, in place of an old one."""
        ...

    def create_new(self, path: Path) -> int:
        """Return an empty file to read and write; `FileExistsError` if there is one."""
        ...

    def open(self, path: Path) -> int:
        """Return an existing file, to read and write."""
        ...

    def close(self, fd: int) -> None:
        """Give the descriptor back, and its lock if it had one."""
        ...

    def size(self, fd: int) -> int:
        """Return the length of an open file."""
        ...

    def read_file(self, path: Path) -> bytes:
        """Return all bytes of a file."""
        ...

    def pread(self, fd: int, count: int, at: int) -> bytes:
        """Return up to `count` bytes; fewer do not mean the end of the file, none do."""
        ...

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int:
        """Write some of the bytes, and say how many."""
        ...

    def pwritev(self, fd: int, buffers: Sequence[memoryview], at: int) -> int:
        """Write some of the bytes of all buffers, and say how many."""
        ...

    def ftruncate(self, fd: int, count: int) -> None:
        """Cut the file to `count` bytes."""
        ...

    def fdatasync(self, fd: int) -> None:
        """Return when the file's bytes, and the metadata to find them again, are durable."""
        ...

    # Room

    def fallocate(self, fd: int, count: int) -> bool:
        """Reserve blocks for the first `count` bytes, which read as zeros. False where this cannot be done."""
        ...

    def reserve(self, fd: int, at: int, size: int) -> None:
        """Reserve room for `size` bytes from `at` on; the file keeps its length. ENOSPC if there is none."""
        ...

    def release(self, fd: int) -> None:
        """Give back the room after the end of the file. Its bytes stay."""
        ...

    def free_bytes(self, folder: Path) -> int:
        """Return how much a process without privileges may still write on the disk of this folder."""
        ...

    def disk_bytes(self, folder: Path) -> int:
        """Return the size of the disk of this folder."""
        ...


class LocalDisk:
    """A file system of this machine."""

    def mkdir(self, folder: Path) -> None:
        os.mkdir(folder)

    def make_folders(self, folder: Path) -> None:
        os.makedirs(folder, exist_ok=True)

    def names(self, folder: Path) -> list[str]:
        return os.listdir(folder)

    def walk(self, folder: Path) -> list[Path]:
        found = [Path(above, name) for above, _, names in os.walk(folder) for name in names]
        return sorted(found)

    def exists(self, path: Path) -> bool:
        return os.path.exists(path)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)

    def remove(self, path: Path) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_tree(self, folder: Path) -> None:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)

    def fsync_folder(self, folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def temporary(self, folder: Path | None) -> int:
        import tempfile

        fd, name = tempfile.mkstemp(dir=folder)
        os.unlink(name)
        return fd

    def lock(self, path: Path) -> int:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return fd

    def create(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)

    def create_new(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def open(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        os.close(fd)

    def pread(self, fd: int, count: int, at: int) -> bytes:
        return os.pread(fd, count, at)

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int:
        return os.pwrite(fd, data, at)

    def pwritev(self, fd: int, buffers: Sequence[memoryview], at: int) -> int:
        return os.pwritev(fd, buffers, at)

    def ftruncate(self, fd: int, count: int) -> None:
        os.ftruncate(fd, count)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def read_file(self, path: Path) -> bytes:
        return path.read_bytes()

    def fdatasync(self, fd: int) -> None:
        # Where there is no fdatasync, fsync does the same and more.
        getattr(os, "fdatasync", os.fsync)(fd)

    def fallocate(self, fd: int, count: int) -> bool:
        if not hasattr(os, "posix_fallocate"):
            return False
        try:
            os.posix_fallocate(fd, 0, count)
        except OSError as error:
            if error.errno in _NOT_SUPPORTED:
                return False
            raise
        return True

    def reserve(self, fd: int, at: int, size: int) -> None:
        fallocate = _fallocate()
        while fallocate is not None:
            code = fallocate(fd, _KEEP_SIZE, at, size)
            if not code:
                return
            if code in _NOT_SUPPORTED:
                break
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))
        found = os.fstatvfs(fd)
        if found.f_bavail * found.f_frsize < size + MARGIN_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def release(self, fd: int) -> None:
        os.ftruncate(fd, os.fstat(fd).st_size)

    def free_bytes(self, folder: Path) -> int:
        found = _disk_of(folder)
        return found.f_bavail * found.f_frsize

    def disk_bytes(self, folder: Path) -> int:
        found = _disk_of(folder)
        return found.f_blocks * found.f_frsize


def _disk_of(folder: Path) -> os.statvfs_result:
    """Return the disk of a folder, which need not exist yet."""
    while True:
        try:
            return os.statvfs(folder)
        except FileNotFoundError:
            folder = folder.parent
