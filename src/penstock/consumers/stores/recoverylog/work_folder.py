"""A folder for the files of one life of a store. They are not read after it: the log alone counts.

    {base}/{name}-{serial}         the files
    {base}/{name}-{serial}.lock    locked for as long as its process lives

Later processes remove the folders of processes that ended without cleaning up: their locks are free.
"""

import fcntl
import os
import secrets
import shutil
from pathlib import Path

__all__ = ["WorkFolder"]


class WorkFolder:
    """Made at once; `remove` ends it."""

    def __init__(self, base: Path, name: str) -> None:
        base.mkdir(parents=True, exist_ok=True)
        stem = name.replace("%", "%25").replace("/", "%2F")
        _remove_abandoned(base, stem)
        self.path = base / f"{stem}-{secrets.token_hex(8)}"
        self._lock_path = self.path.with_name(f"{self.path.name}.lock")
        made = self.path.with_name(f"{self.path.name}.new")  # no other process looks for this name before it is locked
        self._lock = os.open(made, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        made.rename(self._lock_path)
        self.path.mkdir()

    def remove(self) -> None:
        """May be called again."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            self._lock_path.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1


def _remove_abandoned(base: Path, stem: str) -> None:
    for lock_path in base.glob(f"{stem}-*.lock"):
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue  # its process lives
        else:
            shutil.rmtree(lock_path.with_suffix(""), ignore_errors=True)
            lock_path.unlink(missing_ok=True)
        finally:
            os.close(lock)
