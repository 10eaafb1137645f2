"""Machines of a cluster as processes: `penstock server` with one page, each on an address of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from penstock.plumbing.process.ports import ReservedPorts

HOSTS = ("127.0.1.1", "127.0.1.2", "127.0.1.3")


class ServerProcess:
    """One machine."""

    def __init__(self, name: str, host: str, folder: Path, page: Path, http: int, metrics: int) -> None:
        self.name = name
        self.host = host
        self.folder = folder
        self.page = page
        self.http = f"{host}:{http}"
        self.metrics = f"{host}:{metrics}"
        self.said = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        environment = {
            **os.environ,
            "PENSTOCK_SERVER_NAME": self.name,
            "PENSTOCK_DATA_FOLDER": str(self.folder),
            "PENSTOCK_LAKE_LISTEN": self.http,
            "PENSTOCK_METRICS_LISTEN": self.metrics,
            "PENSTOCK_WAL_SEGMENT_BYTES": "1MiB",
        }
        command = [sys.executable, "-m", "penstock", "server", "--config", str(self.page), "--log-level", "warning"]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)

    def wait(self) -> None:
        """Wait until all its roles have served."""
        assert self.process is not None
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if f"{self.name} is ready" in line:
                return
        raise AssertionError(f"{self.name} did not start: {self.said}")

    def signal(self, number: signal.Signals) -> int:
        """Send a signal, and wait for its end; return the exit status."""
        assert self.process is not None
        assert self.process.stderr is not None
        self.process.send_signal(number)
        self.said += self.process.stderr.read()
        status = self.process.wait(60)
        self.process.stderr.close()
        self.process = None
        return status


class ThreeServers:
    """Three machines with one page, which start together and end together."""

    def __init__(self, folder: Path, keyspace: str) -> None:
        self._ports = ReservedPorts(3)
        wire, http, metrics = self._ports.numbers
        members = [f"m{number}={host}:{wire}" for number, host in enumerate(HOSTS, 1)]
        page = folder / "penstock.toml"
        page.write_text(
            f"""
[cluster]
name     = "shop"
members  = {members!r}
zones    = {{ m1 = "a", m2 = "b", m3 = "c" }}
keyspace = "{keyspace}"
[objectstore]
url = "{(folder / "store").as_uri()}"
"""
        )
        self.wires = {each.partition("=")[0]: each.partition("=")[2] for each in members}
        self.machines = {
            f"m{number}": ServerProcess(f"m{number}", host, folder / f"m{number}", page, http, metrics)
            for number, host in enumerate(HOSTS, 1)
        }

    def __enter__(self) -> Self:
        for machine in self.machines.values():
            machine.start()
        try:
            for machine in self.machines.values():
                machine.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self.machines.values():
            if machine.process is not None:
                machine.signal(signal.SIGKILL)
        self._ports.close()
