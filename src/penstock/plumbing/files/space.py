"""Reserve room on a disk before content is accepted. Design: integrity.md D10.

A write into reserved room does not fail because the disk is full: neither on ext4 nor on tmpfs. A file system that
cannot reserve is asked for its free bytes instead, and a margin is kept.
"""

import ctypes
import errno
import os
from pathlib import Path
from typing import Final

__all__ = ["free_bytes", "is_full", "release", "reserve"]

MARGIN_BYTES: Final = 16 << 20  # where nothing can be reserved: others may write too
_KEEP_SIZE: Final = 1
_NOT_SUPPORTED: Final = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)
if _fallocate is not None:
    _fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def is_full(error: OSError) -> bool:
    """Return whether a call failed for lack of room, and may succeed later."""
    return error.errno in _FULL


def free_bytes(folder: Path) -> int:
    """Return how much a process without privileges may still write on the disk of this folder."""
    while True:
        try:
            found = os.statvfs(folder)
        except FileNotFoundError:
            folder = folder.parent
        else:
            return found.f_bavail * found.f_frsize


def reserve(fd: int, at: int, size: int) -> None:
    """Reserve room for `size` bytes from `at` on; the file keeps its length. ENOSPC if there is none."""
    while _fallocate is not None:
        if not _fallocate(fd, _KEEP_SIZE, at, size):
            return
        code = ctypes.get_errno()
        if code in _NOT_SUPPORTED:
            break
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))
    found = os.fstatvfs(fd)
    if found.f_bavail * found.f_frsize < size + MARGIN_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def release(fd: int) -> None:
    """Give back the room after the end of the file. Its bytes stay."""
    os.ftruncate(fd, os.fstat(fd).st_size)
