"""`penstock up` as a process which tests start, kill and start again."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.lake.rest.servers import KEY, SECRET

from penstock.cli.machines.up import STOP
from penstock.plumbing.process.running import RunningServer, running_in


class UpProcess:
    """`penstock up` on a data folder, on free ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait for the end of its banner."""
        environment = {
            **os.environ,
            "PENSTOCK_DATA_FOLDER": str(self.folder),
            "PENSTOCK_WIRE_LISTEN": "127.0.0.1:0",
            "PENSTOCK_LAKE_LISTEN": "127.0.0.1:0",
            "PENSTOCK_LAKE_ACCESS_KEY_ID": KEY,
            "PENSTOCK_LAKE_SECRET_ACCESS_KEY": SECRET,
        }
        command = [sys.executable, "-m", "penstock", "up"]
        self._process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        self.said = ""
        for line in self._process.stderr:
            self.said += line
            if STOP in line:
                return
        raise AssertionError(f"it did not start: {self.said}")

    @property
    def running(self) -> RunningServer:
        found = running_in(self.folder)
        assert found is not None
        return found

    def signal(self, number: signal.Signals) -> int:
        """Send a signal, and wait for its end; the exit status."""
        assert self._process is not None
        self._process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        assert self._process is not None
        assert self._process.stderr is not None
        self.said += self._process.stderr.read()
        status = self._process.wait(60)
        self._process.stderr.close()
        self._process = None
        return status

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.signal(signal.SIGKILL)
