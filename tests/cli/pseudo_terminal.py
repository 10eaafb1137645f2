"""A command at a terminal of its own, where tests type, Ctrl-C too."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from types import TracebackType
from typing import Final, Self

CTRL_C: Final = b"\x03"
WAIT_S: Final = 60.0


def _take_terminal() -> None:
    """In the child: make the terminal its own. A shell lets what runs in its background ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class AtTerminal:
    """A Python process whose stdin, stdout and controlling terminal are a pseudo-terminal."""

    def __init__(self, *arguments: str) -> None:
        self._master, self._slave = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=self._slave, stdout=self._slave, stderr=subprocess.PIPE, start_new_session=True,
            preexec_fn=_take_terminal,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)
        os.close(self._slave)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def wait_shown(self, wanted: bytes) -> None:
        """Wait until the terminal shows a text."""
        shown = b""
        while wanted not in shown:
            shown += os.read(self._master, 1 << 16)

    def type_line(self, line: bytes) -> None:
        """Type a line, and wait until the process has read it."""
        self.type(line + b"\n")
        self.wait_shown(line)  # the echo
        while int.from_bytes(fcntl.ioctl(self._slave, termios.FIONREAD, bytes(4)), sys.byteorder):
            time.sleep(0.005)

    def ended(self) -> tuple[int, str]:
        """Return the exit status, and what the process wrote to stderr."""
        assert self._process.stderr is not None
        status = self._process.wait(WAIT_S)
        return status, self._process.stderr.read().decode()
