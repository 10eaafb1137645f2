"""Wake-ups between processes: each listener has a FIFO in a folder, and who commits writes a byte into each of them.

A wake-up only says "look". It may be lost (its sender was killed between commit and wake-up), so listeners also look by
themselves now and then. A FIFO has no limit on its path as a Unix socket has, and opening it tells whether its reader
still lives: that of a killed process is removed by the next who commits.
"""

import contextlib
import errno
import os
import uuid
from pathlib import Path
from typing import Final

__all__ = ["Wakeups"]

_SUFFIX: Final = ".fifo"


class Wakeups:
    """One listener, who also wakes the others. `file` becomes readable when another process has committed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = uuid.uuid4().hex + _SUFFIX
        folder.mkdir(exist_ok=True)
        hidden = folder / f".{self._name}"
        os.mkfifo(hidden, 0o600)
        # Open it for both, so that it never ends; and before it is shown, so that no process takes it for a dead one.
        self.file = os.open(hidden, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        hidden.rename(folder / self._name)

    def drain(self) -> None:
        """Take all wake-ups which have come."""
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self.file, 4096)) == 4096:
                pass

    def wake_others(self) -> None:
        """Wake every other listener. Never blocks, never raises: who is not woken looks soon enough."""
        try:
            names = os.listdir(self._folder)
        except OSError:
            return
        for name in names:
            if name != self._name and name.endswith(_SUFFIX) and not name.startswith("."):
                self._wake(self._folder / name)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            (self._folder / self._name).unlink()
        os.close(self.file)

    def _wake(self, path: Path) -> None:
        try:
            file = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no process has it open: its process is dead
                with contextlib.suppress(OSError):
                    path.unlink()
            return
        try:
            os.write(file, b"\0")
        except OSError:
            pass  # full: it has wake-ups enough
        finally:
            os.close(file)
