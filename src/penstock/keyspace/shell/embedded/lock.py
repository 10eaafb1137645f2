"""The lock around every write, checkpoint and close of the store, across all processes which share it.

SQLite locks too, but (1) its waiting is a sleep with a growing pause, unfair and slow to notice; (2) its versions
before 3.51.3 can corrupt the database when one connection checkpoints in the very moment another one writes (the
"WAL-reset bug"). With this lock held around both, that moment cannot come. The kernel frees the lock of a killed
process. No process may take the lock of a stopped one (SIGSTOP, a debugger, a frozen container): it holds SQLite's own
locks too, and continues in the middle when it wakes. So the lock is held no longer than a commit takes, and the error
of a process that waited in vain says which process to wake or to kill.
"""

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from penstock.kernel.errors import Overloaded

__all__ = ["LOCK_FILE", "WriterLock", "is_stopped"]

LOCK_FILE: Final = "writer.lock"  # in the KeySpace's folder

_PAUSE_S: Final = 0.0005  # between two tries; doubles up to the next figure
_PAUSE_S_MAX: Final = 0.008


class WriterLock:
    """A file lock with a bounded wait. Each holder needs one of its own, also within a process."""

    def __init__(self, path: Path, wait_ms_max: int) -> None:
        self._wait_ms_max = wait_ms_max
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def acquire(self) -> None:
        """Wait for the lock. Raise Overloaded when it takes too long."""
        started = time.monotonic_ns()
        pause_s = _PAUSE_S
        while not self._try():
            if time.monotonic_ns() - started > self._wait_ms_max * 1_000_000:
                raise self._in_vain()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    def release(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._file)

    def _in_vain(self) -> Overloaded:
        message = f"another process has held the KeySpace's writer lock for {self._wait_ms_max} ms"
        holder = _holder(self._file)
        if holder is None:
            return Overloaded(message, next_step=f"look for a stopped process which has it open: fuser -v {LOCK_FILE}")
        if is_stopped(holder):
            return Overloaded(
                f"process {holder} holds the KeySpace's writer lock, and is stopped",
                next_step=f"kill -CONT {holder}, or kill -KILL {holder}",
            )
        return Overloaded(f"{message}: process {holder}", next_step=f"ps -fp {holder}")

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _holder(file: int) -> int | None:
    """The process which holds the lock on a file; None if the system does not say."""
    stat = os.fstat(file)
    place = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    held = (line.split() for line in lines if " FLOCK " in line and " -> " not in line)
    return next((int(words[4]) for words in held if words[5] == place and int(words[4]) > 0), None)


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped, as by SIGSTOP; False if the system does not say."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state in "Tt"
