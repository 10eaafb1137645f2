"""What runs in a data folder: one process at most, and where each of its roles listens.

<folder>/up.lock     held, as a file lock, by the process which runs there; the kernel frees it however it ends
<folder>/up.json     where its roles listen; to be believed only while the lock is held

with hold(folder) as place:
    place.tell(Running(pid=os.getpid(), ...))
found = running_in(folder)      # None: no process runs in it
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from penstock.kernel.errors import PreconditionFailed

__all__ = ["DataFolder", "RunningServer", "hold", "is_held", "running_in"]

LOCK: Final = "up.lock"
FILE: Final = "up.json"
LOOKS: Final = 10
LOOK_S: Final = 0.02


class RunningServer(msgspec.Struct, frozen=True):
    """A process with every role, and where each of them is reached."""

    pid: int
    broker: str
    node: str
    operator: str
    lake: str  # a URL
    shard: str = "main"
    opened_by: int = 0  # the process with which it ends; 0: it runs until it is stopped


class DataFolder:
    """A data folder which is ours."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def tell(self, running: RunningServer) -> None:
        """Have others find us."""
        new = self.folder / f"{FILE}.new"
        new.write_bytes(msgspec.json.format(msgspec.json.encode(running), indent=2))
        new.rename(self.folder / FILE)


@contextmanager
def hold(folder: Path) -> Iterator[DataFolder]:
    """Be the only process which runs in the folder. `PreconditionFailed` if another does."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not _try_for_a_moment(lock):
            raise PreconditionFailed(
                f"another process runs in {folder} already",
                next_step="stop it with penstock down, or choose another folder with --set data.folder=FOLDER",
            )
        (folder / FILE).unlink(missing_ok=True)  # of a former life
        try:
            yield DataFolder(folder)
        finally:
            (folder / FILE).unlink(missing_ok=True)
    finally:
        os.close(lock)


def is_held(folder: Path) -> bool:
    """Does a process run in the folder?"""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _try(lock)
    finally:
        os.close(lock)


def running_in(folder: Path) -> RunningServer | None:
    """Return the process that runs in the folder, once it has announced itself; else None."""
    if not is_held(folder):
        return None
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=RunningServer)
    except FileNotFoundError:
        return None


def _try_for_a_moment(lock: int) -> bool:
    """A process that only looks whether the folder is held has the lock for an instant."""
    for _ in range(LOOKS):
        if _try(lock):
            return True
        time.sleep(LOOK_S)
    return False


def _try(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
