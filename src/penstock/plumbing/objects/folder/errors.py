"""What a failed system call means to the caller of the local folder."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.kernel.errors import DiskFull, InvalidArgument, NotFound, ObjectStoreFailed, PenstockError, Written

__all__ = ["absent", "disk_errors", "in_the_way"]

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def disk_errors(doing: str, key: str, *, written: Written = Written.NO) -> Iterator[None]:
    """Turn the OSErrors of the block into our errors."""
    try:
        yield
    except OSError as error:
        raise _error_of(error, doing, key, written) from error


def _error_of(error: OSError, doing: str, key: str, written: Written) -> PenstockError:
    reason = f"{doing} {key!r}: {error.strerror or error}"
    if error.errno in _FULL:
        return DiskFull(reason, written=written, next_step="free some space, then try again", key=key)
    if error.errno == errno.ENAMETOOLONG:
        return InvalidArgument(f"{reason}, in this folder", key=key)
    if error.errno in _FORBIDDEN:
        step = "check who owns the store's folder and whether it is mounted read-only"
        return ObjectStoreFailed(reason, written=written, retryable=False, next_step=step, key=key)
    return ObjectStoreFailed(reason, written=written, key=key)


def absent(key: str) -> NotFound:
    return NotFound(f"no object {key!r}", key=key)


def in_the_way(key: str) -> InvalidArgument:
    return InvalidArgument(
        f"put {key!r}: in a folder, a key cannot be the folder of another, and here one is",
        next_step="see docs/reference/objectstore.md#keys",
        key=key,
    )
