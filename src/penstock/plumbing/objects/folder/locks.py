"""Locks between processes on one machine: who may change the names in a folder.

A lock is an flock on one of a few files, chosen by the folder's name. Invariant: while a folder's lock is free, every
name in that folder is durable, and so is the folder itself. The process that changes names holds the lock until they
are durable. If it is killed before that, the kernel frees its lock, but the lock's file still lists the folders it was
changing, and the next holder syncs them first.
"""

import errno
import fcntl
import os
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from penstock.kernel.errors import ObjectStoreFailed
from penstock.plumbing.objects.keys import RESERVED

__all__ = ["FolderLocks"]

STRIPES = 64
_PAUSE_S, _PAUSE_S_MAX = 0.000_1, 0.005
_MARK_BYTES_MAX = 64 << 10
_BUSY = (errno.EWOULDBLOCK, errno.EACCES)


class FolderLocks:
    """The locks of one store. Any thread may use them; a thread holds those of one `changing` at a time."""

    def __init__(self, root: str, wait_ms_max: int, sync_folder: Callable[[str], None]) -> None:
        self._root = root
        self._path = f"{root}/{RESERVED}/locks"
        self._wait_s_max = wait_ms_max / 1000
        self._sync_folder = sync_folder

    def create(self) -> None:
        """Make the lock files. A folder without them has never been changed by us."""
        os.makedirs(self._path, exist_ok=True)
        for stripe in range(STRIPES):
            os.close(os.open(self._file(stripe), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))

    @contextmanager
    def changing(self, *folders: str) -> Iterator[None]:
        """Alone change names in these folders, and sync them. Two may share a file; all are taken in one order."""
        mark = os.fsencode("\0".join(folders))
        with ExitStack() as stack:
            for stripe in sorted({_stripe(folder) for folder in folders}):
                file = self._acquire(stripe, fcntl.LOCK_EX)
                stack.callback(os.close, file)
                self._recover(file)
                stack.callback(os.ftruncate, file, 0)
                os.pwrite(file, mark, 0)
            yield

    def settle(self, folder: str) -> None:
        """Wait until all names that exist at the time of the call are durable."""
        try:
            file = self._acquire(_stripe(folder), fcntl.LOCK_SH)
        except FileNotFoundError:
            return  # this store has never written here
        was_left = os.fstat(file).st_size > 0
        os.close(file)
        if was_left:
            with self.changing(folder):  # its holder was killed; this makes its names durable
                pass

    def _recover(self, file: int) -> None:
        """Sync what a killed process may have left half done: the folders, and those they are in."""
        left = os.pread(file, _MARK_BYTES_MAX, 0)
        for folder in os.fsdecode(left).split("\0") if left else ():
            while folder.startswith(self._root):
                if os.path.isdir(folder):
                    self._sync_folder(folder)
                folder = os.path.dirname(folder)

    def _acquire(self, stripe: int, how: int) -> int:
        file = os.open(self._file(stripe), (os.O_RDWR if how == fcntl.LOCK_EX else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            self._wait(file, how)
        except BaseException:
            os.close(file)
            raise
        return file

    def _wait(self, file: int, how: int) -> None:
        # Not the blocking call: it could not be bounded, and a stopped process may hold the lock.
        pause, deadline = _PAUSE_S, time.monotonic() + self._wait_s_max
        while True:
            try:
                return fcntl.flock(file, how | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in _BUSY:
                    raise
            if time.monotonic() >= deadline:
                raise ObjectStoreFailed(
                    f"another process has kept a lock in {self._path} for {self._wait_s_max:g} s",
                    next_step=f"find it with: fuser {self._path}/*",
                )
            time.sleep(pause)
            pause = min(pause * 2, _PAUSE_S_MAX)

    def _file(self, stripe: int) -> str:
        return f"{self._path}/{stripe:02x}"


def _stripe(folder: str) -> int:
    return zlib.crc32(folder.encode()) % STRIPES
