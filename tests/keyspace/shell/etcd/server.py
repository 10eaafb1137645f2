"""A real etcd server as a process of its own, which can be killed and restarted with its data."""

import os
import socket
import subprocess
import sys
from pathlib import Path

BINARY = Path(sys.executable).with_name("etcd")


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class EtcdServer:
    """One member. Clients wait for it by themselves when they connect."""

    def __init__(self, folder: Path, *, scheme: str = "http", flags: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self._scheme = scheme
        self._ports = free_ports(2)
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    def start(self) -> None:
        assert self._process is None
        client, peer = f"{self._scheme}://127.0.0.1:{self._ports[0]}", f"http://127.0.0.1:{self._ports[1]}"
        command = [
            str(BINARY),
            *("--name", "one", "--data-dir", str(self.folder), "--log-level", "error", "--unsafe-no-fsync"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"one={peer}"),
            *("--heartbeat-interval", "50", "--election-timeout", "500"),  # the least lease is 1 s then
            *self._flags,
        ]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ETCD")}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self) -> None:
        """kill -9, and wait for its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None
        return self._process
