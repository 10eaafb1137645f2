"""NATS JetStream, three servers on loopback, one stream with three replicas in files; from a small client of our own.

The client speaks the text protocol by hand on asyncio, so that no library's cost counts against NATS, and connects to
the server which leads the stream, so that no hop does. As JetStream is by default, an acknowledgement does not wait for
an fsync.
"""

import asyncio
import json
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import uvloop

from penstock_lab.bench.peers.etcd import _free_ports

__all__ = ["Nats", "nats_binary", "nats_cluster"]

STREAM, SUBJECT = "BENCH", "bench"
READY_S = 60.0
ASK_S = 2.0  # a server which has just met the others may forget a question
STREAM_BYTES_MAX = 2 << 30
FETCH = 256  # messages a consumer asks for at a time
_CONFIG = """
server_name: n{number}
listen: 127.0.0.1:{port}
max_payload: 8MB
jetstream {{ store_dir: "{folder}", max_file: 16GB }}
cluster {{ name: bench, listen: 127.0.0.1:{route}, routes: [{routes}] }}
"""


def nats_binary() -> str | None:
    """Return where nats-server is installed (Debian: nats-server), or None."""
    return shutil.which("nats-server")


class Nats:
    """A running cluster."""

    def __init__(self, ports: list[int], pids: list[int]) -> None:
        self._ports = ports
        self.pids = pids

    def publish(self, size: int, in_flight: int, seconds: float) -> tuple[float, list[float]]:
        """Acknowledged messages per second, and how long each took."""
        return uvloop.run(self._publish(size, in_flight, seconds))

    def tail(self, size: int, in_flight: int, seconds: float) -> float:
        """Return the bytes per second that a consumer fetched while publishers worked, until it had all."""
        return uvloop.run(self._tail(size, in_flight, seconds))

    def read(self, size: int, total: int) -> float:
        """Return the bytes per second of a new consumer that fetches `total` bytes from the start of the stream."""
        return uvloop.run(self._read(size, total))

    async def _publish(self, size: int, in_flight: int, seconds: float) -> tuple[float, list[float]]:
        connection = await self._leader()
        try:
            return await _load(connection, size, in_flight, seconds)
        finally:
            connection.close()

    async def _tail(self, size: int, in_flight: int, seconds: float) -> float:
        connection, own = await self._leader(), await self._leader()
        try:
            consumer = await own.consume("new")
            began = time.perf_counter()
            fetching = asyncio.create_task(own.fetch(consumer, 1 << 62))
            _, times = await _load(connection, size, in_flight, seconds)
            await own.has_fetched(len(times) * size)
            took = time.perf_counter() - began
            fetching.cancel()
            return own.fetched_bytes / took
        finally:
            connection.close()
            own.close()

    async def _read(self, size: int, total: int) -> float:
        connection = await self._leader()
        try:
            info = await connection.ask(f"STREAM.INFO.{STREAM}")
            while info["state"]["bytes"] < total + size:  # there may not be enough yet
                await _load(connection, size, 64, 0.2)
                info = await connection.ask(f"STREAM.INFO.{STREAM}")
            consumer, began = await connection.consume("all"), time.perf_counter()
            await connection.fetch(consumer, total)
            return connection.fetched_bytes / (time.perf_counter() - began)
        finally:
            connection.close()

    async def _leader(self) -> "_Connection":
        """A connection to the server which leads the stream; the stream is made if there is none."""
        deadline = time.monotonic() + READY_S
        config = {
            "name": STREAM, "subjects": [SUBJECT], "storage": "file", "num_replicas": 3,
            "max_bytes": STREAM_BYTES_MAX, "discard": "old",
        }  # fmt: skip
        while time.monotonic() < deadline:
            for number, port in enumerate(self._ports):
                try:
                    connection = await _Connection.open(port)
                except OSError:
                    continue
                try:
                    await connection.ask(f"STREAM.CREATE.{STREAM}", config)
                    info = await connection.ask(f"STREAM.INFO.{STREAM}")
                    if info.get("cluster", {}).get("leader") == f"n{number}":
                        return connection
                except TimeoutError:
                    pass
                connection.close()
            await asyncio.sleep(0.1)
        raise TimeoutError("no NATS server leads the stream")


async def _load(connection: "_Connection", size: int, in_flight: int, seconds: float) -> tuple[float, list[float]]:
    data, times = b"x" * size, list[float]()
    end = time.perf_counter() + seconds

    async def publisher() -> None:
        now = 0.0
        while now < end:
            start = time.perf_counter()
            answer = json.loads(await connection.request(SUBJECT, data))
            assert "seq" in answer, answer
            now = time.perf_counter()
            times.append(now - start)

    began = time.perf_counter()
    await asyncio.gather(*(publisher() for _ in range(in_flight)))
    return len(times) / (time.perf_counter() - began), times


class _Connection(asyncio.Protocol):
    """One client: publishes with a reply subject each, and hands answers back."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inbox = b"_R" + secrets.token_hex(4).encode()  # answers to others are not for us
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self._numbers = 0
        self._out: list[bytes] = []
        self._arrived = asyncio.Event()
        self._fetched = 0  # messages
        self.fetched_bytes = 0
        self._transport: asyncio.Transport

    @classmethod
    async def open(cls, port: int) -> "_Connection":
        _, connection = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        hello = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB %s.* 1\r\n'
        connection._transport.write(hello % connection._inbox)
        return connection

    async def request(self, subject: str, data: bytes) -> bytes:
        self._numbers += 1
        reply = b"%s.%d" % (self._inbox, self._numbers)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[reply] = future
        self._send(subject, reply, data)
        async with asyncio.timeout(READY_S):
            return await future

    async def ask(self, what: str, body: Any = None) -> Any:
        """Ask the JetStream API."""
        async with asyncio.timeout(ASK_S):
            return json.loads(await self.request(f"$JS.API.{what}", b"" if body is None else json.dumps(body).encode()))

    async def consume(self, policy: str) -> str:
        """Make a consumer that begins with "all" messages, or with "new" ones; return its name."""
        config = {"deliver_policy": policy, "ack_policy": "none", "max_waiting": 512}
        made = await self.ask(f"CONSUMER.CREATE.{STREAM}", {"stream_name": STREAM, "config": config})
        name: str = made["name"]
        return name

    async def fetch(self, consumer: str, total: int) -> None:
        """Fetch `total` bytes, with the next request on its way before the last one is answered."""
        asked = 0
        body = json.dumps({"batch": FETCH, "expires": int(READY_S * 1e9)}).encode()
        while self.fetched_bytes < total:
            while asked < self._fetched + 2 * FETCH:
                asked += FETCH
                self._send(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}", self._inbox + b".fetch", body)
            self._arrived.clear()
            await self._arrived.wait()

    async def has_fetched(self, total: int) -> None:
        """Wait until another task has fetched `total` bytes."""
        while self.fetched_bytes < total:
            self._arrived.clear()
            await self._arrived.wait()

    def _send(self, subject: str, reply: bytes, data: bytes) -> None:
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out += (b"PUB %s %s %d\r\n" % (subject.encode(), reply, len(data)), data, b"\r\n")

    def _flush(self) -> None:
        self._transport.writelines(self._out)
        self._out = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by class

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at = 0
        while (end := buffer.find(b"\r\n", at)) >= 0:
            words = bytes(buffer[at:end]).split()
            at_next = end + 2
            if words and words[0] in (b"MSG", b"HMSG"):
                size = int(words[-1])
                if len(buffer) < at_next + size + 2:
                    break
                if words[1] == SUBJECT.encode():  # of the stream, as it was published: fetched
                    self._fetched += 1
                    self.fetched_bytes += size
                    self._arrived.set()
                else:
                    head = int(words[-2]) if words[0] == b"HMSG" else 0
                    self._answer(words[1], bytes(buffer[at_next + head : at_next + size]))
                at_next += size + 2
            elif words and words[0] == b"PING":
                self._transport.write(b"PONG\r\n")
            at = at_next
        del buffer[:at]

    def _answer(self, reply: bytes, data: bytes) -> None:
        future = self._waiting.pop(reply, None)
        if future is not None and not future.done():
            if data:
                future.set_result(data)
            else:
                future.set_exception(TimeoutError("nobody answers yet"))

    def close(self) -> None:
        self._transport.close()


@contextmanager
def nats_cluster(folder: Path, servers: int = 3) -> Iterator[Nats]:
    """NATS processes which end with the block."""
    binary = nats_binary()
    assert binary is not None, "ask nats_binary() first"
    ports = _free_ports(2 * servers)
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports[servers:])
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(servers):
            place = folder / f"nats{number}"
            place.mkdir(parents=True)
            config = place / "server.conf"
            config.write_text(
                _CONFIG.format(
                    number=number, port=ports[number], route=ports[servers + number], routes=routes, folder=place
                )
            )
            command = [binary, "-c", str(config)]
            processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        yield Nats(ports[:servers], [process.pid for process in processes])
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
