"""Small files that appear whole: after any crash a file is the old one or the new one. Design: integrity.md D22."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.plumbing.ports.disk import FileSystem, LocalDisk

__all__ = ["create_whole", "write_whole"]


def write_whole(path: Path, data: bytes, *, mode: int = 0o644, disk: FileSystem | None = None) -> None:
    """Replace a file; return when that is durable. The folder must exist. `disk`: a role's port.

    The bytes go to a temporary file of the same folder first, so a failure leaves the old file as it was.
    """
    if disk is not None:
        _write_on(disk, path, data)
        return
    with _written(path, data, mode) as temporary:
        temporary.rename(path)
    LocalDisk().fsync_folder(path.parent)


def create_whole(path: Path, data: bytes, *, mode: int = 0o644) -> bool:
    """Make a file unless it exists; return whether this call made it. It is durable then."""
    with _written(path, data, mode) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
    LocalDisk().fsync_folder(path.parent)
    return True


def _write_on(disk: FileSystem, path: Path, data: bytes) -> None:
    """Replace a file of a role's own folder, in which no other process writes."""
    temporary = path.with_name(f"{path.name}.new")
    fd = disk.create(temporary)
    try:
        done = 0
        while done < len(data):
            done += disk.pwrite(fd, data[done:], done)
        disk.fdatasync(fd)
    except OSError:
        with suppress(OSError):
            disk.remove(temporary)
        raise
    finally:
        disk.close(fd)
    disk.rename(temporary, path)
    disk.fsync_folder(path.parent)


@contextmanager
def _written(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """A temporary file with these bytes, durable. It is removed at the end, unless it was renamed."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fdatasync(fd)
        finally:
            os.close(fd)
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
