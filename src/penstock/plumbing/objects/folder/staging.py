"""Unfinished objects of the local folder, and how they are cleaned up after a crash.

Each store that writes has its own staging folder, and holds a lock next to it for as long as it is open. The next
process that opens the store removes the staging folders whose lock is free: their process is gone, however it ended.
"""

import fcntl
import os
import secrets
import shutil
import threading
import time
from contextlib import suppress

from penstock.plumbing.objects.folder.locks import FolderLocks
from penstock.plumbing.objects.folder.syscalls import Syscalls

__all__ = ["FolderStaging", "StagedFile"]

_COPY_BYTES = 64 << 20


class StagedFile:
    """A file which has no place yet: written, synced, and then given its name or discarded."""

    def __init__(self, path: str, syscalls: Syscalls) -> None:
        self.path = path
        self._calls = syscalls
        self._file = syscalls.create(path)

    def write(self, data: memoryview) -> None:
        while data:
            data = data[self._calls.write(self._file, data) :]

    def copy_from(self, source: int, size: int) -> None:
        """Add the next `size` bytes of another file."""
        while size:
            done = self._calls.copy(source, self._file, min(size, _COPY_BYTES))
            assert done, "objects are never cut short"
            size -= done

    def start_writing(self) -> None:
        """Say that all is written, and will be synced together with other files."""
        self._calls.start_writing(self._file)

    def sync(self) -> os.stat_result:
        """Make the content durable. Returns what names this version."""
        # The kernel's own time stamps are some milliseconds coarse, and inode numbers are used again at once: without
        # a finer time, two versions could look the same to `if_match`.
        self._calls.set_modified(self._file, time.time_ns())
        self._calls.fsync(self._file)
        return os.fstat(self._file)

    def close(self) -> None:
        """Close the file, and remove its staging name if it still has one."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            with suppress(OSError):  # renamed to its place; or left for the next sweep
                self._calls.unlink(self.path)


class FolderStaging:
    """The staging folder of one store, made when the first object is written."""

    def __init__(self, path: str, locks: FolderLocks, syscalls: Syscalls) -> None:
        self._path = path
        self._locks = locks
        self._calls = syscalls
        self._guard = threading.Lock()
        self._own: str | None = None
        self._alive = -1
        self._count = 0

    def new(self) -> StagedFile:
        """A file to write, on the same file system as the objects."""
        with self._guard:
            if self._own is None:
                self._own = self._open()
            self._count += 1
            path = f"{self._own}/{self._count}"
        return StagedFile(path, self._calls)

    def close(self) -> None:
        with self._guard:
            if self._own is not None:
                # Under the folder's lock: the sweep of another process lists the folder before it opens the files.
                with suppress(FileNotFoundError), self._locks.changing(self._path):
                    _remove(self._own)
                os.close(self._alive)
                self._own = None

    def _open(self) -> str:
        os.makedirs(self._path, exist_ok=True)
        with self._locks.changing(self._path):  # else another's sweep could find our folder before it is locked
            self._sweep()
            own = f"{self._path}/{secrets.token_hex(8)}"
            self._alive = os.open(f"{own}.alive", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            fcntl.flock(self._alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.mkdir(own)
        return own

    def _sweep(self) -> None:
        for name in sorted(os.listdir(self._path)):
            own = f"{self._path}/{name.removesuffix('.alive')}"
            if name.endswith(".alive") and _is_dead(f"{own}.alive"):
                _remove(own)


def _is_dead(alive: str) -> bool:
    try:
        file = os.open(alive, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False  # its process has closed it since it was listed
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


def _remove(own: str) -> None:
    shutil.rmtree(own, ignore_errors=True)
    with suppress(FileNotFoundError):
        os.unlink(f"{own}.alive")
