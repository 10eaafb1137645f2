"""A server with every role as a child process: what `penstock.open` runs, on a data folder and free ports."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from penstock.kernel.errors import PreconditionFailed, Unavailable
from penstock.plumbing.process.running import RunningServer, is_held, running_in

__all__ = ["DataServer"]

START_S: Final = 120.0
STOP_S: Final = 60.0
LOOK_S: Final = 0.02
LOG: Final = "server.log"


class DataServer:
    """`penstock up` on a folder; its log is in there. When this returns, it serves. It ends with this process, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened_by = os.getpid()
        _wait_for_an_orphan(folder)
        if is_held(folder):
            raise PreconditionFailed(
                f"another process runs in {folder} already",
                next_step="use it with penstock.connect(), or stop it with penstock down",
            )
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOG).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock", "up", "--until-stdin-ends"],
                stdin=subprocess.PIPE,  # which the system closes if this process is killed
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "PENSTOCK_DATA_FOLDER": str(folder),
                    "PENSTOCK_WIRE_LISTEN": "127.0.0.1:0",
                    "PENSTOCK_LAKE_LISTEN": "127.0.0.1:0",
                },
                start_new_session=True,  # Ctrl-C is for the process that opened it, and that then stops it
            )
        try:
            self.running = self._wait()
        except BaseException:
            self.stop()
            raise

    def _wait(self) -> RunningServer:
        deadline = time.monotonic() + START_S
        while (running := running_in(self.folder)) is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"the server did not start; why: {self.folder / LOG}")
            time.sleep(LOOK_S)
        return running

    def stop(self) -> None:
        """End it, as Ctrl-C does: everything is stored first. Acknowledged data is safe in any case.

        A process that its opener forked leaves it running.
        """
        if self._opened_by != os.getpid():
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            assert self._process.stdin is not None
            self._process.stdin.close()


def _wait_for_an_orphan(folder: Path) -> None:
    """Wait for a server whose opener was killed: it stores its remaining data, and ends.

    A server that has not named its opener yet is starting, or about to end: this is soon known.
    """
    deadline = time.monotonic() + STOP_S
    while is_held(folder) and time.monotonic() < deadline:
        found = running_in(folder)
        if found is not None and (not found.opened_by or _is_alive(found.opened_by)):
            return
        time.sleep(LOOK_S)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
