"""etcd, three members on loopback: its puts through Raft, with fsync, from a grpc.aio client on uvloop.

The requests are encoded by hand (two fields), so that the client's protobuf costs etcd nothing.
"""

import asyncio
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop

__all__ = ["Etcd", "etcd_binary", "etcd_cluster"]

PUT = "/etcdserverpb.KV/Put"
READY_S = 30.0


def etcd_binary() -> str | None:
    """Return the path of etcd (Debian: etcd-server), or None."""
    return shutil.which("etcd")


class Etcd:
    """A running cluster."""

    def __init__(self, clients: list[str]) -> None:
        self._clients = clients

    @property
    def addresses(self) -> list[str]:
        """host:port of each member."""
        return self._clients

    def puts_per_second(self, in_flight: int, seconds: float, value: bytes) -> float:
        return uvloop.run(self._load(in_flight, seconds, value))[0]

    def put_p50_us(self, seconds: float, value: bytes) -> float:
        return uvloop.run(self._load(1, seconds, value))[1]

    async def _load(self, in_flight: int, seconds: float, value: bytes) -> tuple[float, float]:
        import grpc

        async with grpc.aio.insecure_channel(self._clients[0]) as channel:
            put = channel.unary_unary(PUT)
            await _until_it_answers(put)
            times: list[float] = []
            end = time.perf_counter() + seconds

            async def writer(number: int) -> None:
                key = b"key%d" % number
                request = _field(1, key) + _field(2, value)
                while (start := time.perf_counter()) < end:
                    await put(request)
                    times.append(time.perf_counter() - start)

            began = time.perf_counter()
            await asyncio.gather(*(writer(number) for number in range(in_flight)))
            return len(times) / (time.perf_counter() - began), statistics.median(times) * 1e6


@contextmanager
def etcd_cluster(folder: Path, members: int = 3) -> Iterator[Etcd]:
    """etcd processes which end with the block."""
    binary = etcd_binary()
    assert binary is not None, "ask etcd_binary() first"
    ports = _free_ports(2 * members)
    peers = [f"http://127.0.0.1:{port}" for port in ports[:members]]
    clients = [f"127.0.0.1:{port}" for port in ports[members:]]
    cluster = ",".join(f"m{number}={url}" for number, url in enumerate(peers))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(members):
            command = [
                binary, "--name", f"m{number}", "--data-dir", str(folder / f"etcd{number}"),
                "--listen-peer-urls", peers[number], "--initial-advertise-peer-urls", peers[number],
                "--listen-client-urls", f"http://{clients[number]}",
                "--advertise-client-urls", f"http://{clients[number]}",
                "--initial-cluster", cluster, "--initial-cluster-state", "new", "--log-level", "error",
            ]  # fmt: skip
            processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        yield Etcd(clients)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def _until_it_answers(put: Any) -> None:
    import grpc

    deadline = time.monotonic() + READY_S
    while True:
        try:
            await put(_field(1, b"ready") + _field(2, b"yes"), timeout=1.0)
        except grpc.aio.AioRpcError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)
        else:
            return


def _field(number: int, data: bytes) -> bytes:
    """A length-delimited protobuf field of fewer than 2 MiB."""
    length, head = len(data), bytearray([number << 3 | 2])
    while length > 0x7F:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + data


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
