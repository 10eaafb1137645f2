"""Locks between processes on one machine: who may change the names in a folder.

A lock is an flock on one of a few files, chosen by the folder's name. The kernel frees it when its process ends, in
whichever way. Invariant: while a folder's lock is free, every name in that folder is durable, and so is the folder
itself; for whoever changes names holds the lock until they are.
"""

import errno
import fcntl
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from penstock.base.errors import ObjectStoreFailed

__all__ = ["FolderLocks"]

STRIPES = 64
_PAUSE_S, _PAUSE_S_MAX = 0.000_1, 0.005


class FolderLocks:
    """The locks of one store. Any thread may use them; a thread holds those of one `changing` at a time."""

    def __init__(self, path: str, wait_ms_max: int) -> None:
        self._path = path
        self._wait_s_max = wait_ms_max / 1000

    def create(self) -> None:
        """Make the lock files. A folder without them has never been changed by us."""
        os.makedirs(self._path, exist_ok=True)
        for stripe in range(STRIPES):
            os.close(os.open(self._file(stripe), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))

    @contextmanager
    def changing(self, *folders: str) -> Iterator[None]:
        """Alone change names in these folders. Two of them may share a file, and all are taken in one order."""
        with ExitStack() as stack:
            for stripe in sorted({_stripe(folder) for folder in folders}):
                stack.callback(os.close, self._acquire(stripe, fcntl.LOCK_EX))
            yield

    def settle(self, folder: str) -> None:
        """Wait until the names which were there when this was called are durable."""
        try:
            os.close(self._acquire(_stripe(folder), fcntl.LOCK_SH))
        except FileNotFoundError:
            return  # nobody has ever written here through this store

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
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
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
