"""Lakes that `lake_requests` asks: each is one process of a checkout of Penstock, on its own port, with the same data.

A server's processor time is read from the clock of its process, which counts threads that have ended as well.
"""

import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.lake.client.lake import LakeClient
from penstock_lab.bench.lake_requests.load import rest_request, send

__all__ = ["KEYS", "Lakeside", "lakesides"]

KEYS: Final = ("AKIABENCHMARKLAKE", "a secret of the benchmark")
READY_S: Final = 60.0
FILLING: Final = 32  # copies in flight


class Lakeside:
    """One running lake, and the data that requests ask for."""

    def __init__(self, folder: Path, port: int, pid: int) -> None:
        self.port = port
        self.commit = ""
        self.rows: list[str] = []
        self.branches = itertools.count()
        self._folder = folder
        self._clock = (~pid << 3) | 2  # the clock of a process, as clock_getcpuclockid() numbers it

    def processor_s(self) -> float:
        """Return the processor time that the server has used."""
        return time.clock_gettime(self._clock)

    def call(self, method: str, api: str, body: Any = None, **query: str) -> Any:
        with LakeClient(f"http://127.0.0.1:{self.port}", *KEYS) as lake:
            return lake.call(method, f"/repositories{api}", body, **query)

    def fill(self, folders: int, each: int, staged: int) -> None:
        """Commit objects in folders, and stage some more on the branch `dirty`."""
        self.call("POST", "", {"name": "bench", "storage_namespace": ""})
        put = rest_request("POST", "/branches/main/objects?path=small", KEYS, bytes(1024), "application/octet-stream")
        send(self.port, iter([put]), 1, READY_S)
        self.rows = [f"f{folder:04d}/o{number:04d}" for folder in range(folders) for number in range(each)]
        self.stage(("main", row) for row in self.rows)
        self.commit = self.call("POST", "/bench/branches/main/commits", {"message": "objects"})["id"]
        for branch in ("dirty", "hot"):
            self.branch(branch)
        self.stage(("dirty", f"{row}-new") for row in self.rows[:: max(1, len(self.rows) // staged)])

    def branch(self, name: str) -> None:
        self.call("POST", "/bench/branches", {"name": name, "source": "main"})

    def commit_on(self, branch: str) -> None:
        self.call("POST", f"/bench/branches/{branch}/commits", {"message": "one object"})

    def link(self, branch: str, path: str) -> bytes:
        """Return a request that links bytes at a new address of this place; the bytes are put there first."""
        made = self.call("GET", f"/bench/branches/{branch}/staging/backing", path=path)
        address = made["physical_address"]
        (self._folder / "data/objects" / address.partition("://")[2]).write_bytes(bytes(1024))
        body = {"staging": {"physical_address": address}, "checksum": "c", "size_bytes": 1024}
        return rest_request("PUT", f"/branches/{branch}/staging/backing?path={path}", KEYS, msgspec.json.encode(body))

    def stage(self, places: Iterable[tuple[str, str]]) -> None:
        """Copy the small object to many places: only its entry is copied."""
        body = b'{"src_path":"small","src_ref":"main"}'
        paths = (f"/branches/{branch}/objects/copy?dest_path={path}" for branch, path in places)
        send(self.port, (rest_request("POST", path, KEYS, body) for path in paths), FILLING, READY_S)


@contextmanager
def lakesides(folder: Path, pythons: dict[str, Path]) -> Iterator[dict[str, Lakeside]]:
    """Start a lake for each Python, whose installation says which Penstock that is."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(_running(folder / name, python if name != "now" else Path(sys.executable)))
            for name, python in pythons.items()
        }


@contextmanager
def _running(folder: Path, python: Path) -> Iterator[Lakeside]:
    folder.mkdir()
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = int(held.getsockname()[1])
    environment = {
        **os.environ,
        "PENSTOCK_DATA_FOLDER": str(folder / "data"),
        "PENSTOCK_LAKE_ACCESS_KEY_ID": KEYS[0],
        "PENSTOCK_LAKE_SECRET_ACCESS_KEY": KEYS[1],
        "PENSTOCK_LOG_LEVEL": "warning",
    }
    words = ["-m", "penstock", "lake", "serve", "--alone", "--listen", f"127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([python, *words], env=environment, stderr=log, cwd=folder)
    try:
        _wait_for(port, process, folder / "log")
        yield Lakeside(folder, port, process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            is_up = process.poll() is None and time.monotonic() < deadline
            assert is_up, log.read_text()[-2000:]
            time.sleep(0.05)
