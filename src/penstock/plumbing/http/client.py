"""A small HTTP/1.1 client for asyncio: what the lake's client needs, and nothing else.

    async with HttpClient("http://127.0.0.1:8000") as http:
        async with http.request("GET", "/api/v1/repositories", headers) as answer:
            answer.status, await answer.read()

Connections are kept and used again. What always holds: an answer is whole or an error; a request which may have
reached the server and was not answered raises `ConnectionLost`, and only reads are sent a second time.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, Self
from urllib.parse import urlsplit

from penstock.kernel.errors import ConnectFailed, ConnectionLost, InvalidArgument, Written
from penstock.plumbing.wire.tls import Tls, client_context

__all__ = ["Body", "HttpAnswer", "HttpClient"]

Body = bytes | bytearray | memoryview | AsyncIterable[bytes]

CONNECTIONS_MAX: Final = 32
CONNECT_S: Final = 10.0
IDLE_S_MAX: Final = 3.0  # a server closes connections that are idle for longer, perhaps just when one is used again
HEAD_BYTES_MAX: Final = 64 << 10
CHUNK_BYTES: Final = 256 << 10
READS: Final = ("GET", "HEAD")
# A machine that lost its power says nothing: its peer is asked after 10 s of silence, and given up after 25 s. A server
# that works on an answer for minutes is not: its kernel answers.
_SILENCE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000),  # of bytes on their way
)
_BROKEN: Final = (OSError, EOFError, asyncio.LimitOverrunError, ValueError)


class _Connection:
    """One connection: at most one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.idle_since = 0.0

    async def send(self, head: bytes, body: Body) -> None:
        self.writer.write(head)
        if isinstance(body, bytes | bytearray | memoryview):
            self.writer.write(body)
        else:
            async for chunk in body:
                if len(chunk):
                    self.writer.writelines((b"%x\r\n" % len(chunk), chunk, b"\r\n"))
                    await self.writer.drain()
            self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        """The status and the headers of the answer."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        _, status, *_ = lines[0].split(" ", 2)
        pairs = (line.partition(":") for line in lines[1:] if line)
        return int(status), {name.strip().lower(): value.strip() for name, _, value in pairs}

    def close(self) -> None:
        self.writer.close()


class HttpAnswer:
    """A status, headers, and a body which is read once."""

    def __init__(self, connection: _Connection, method: str, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers
        self._reader = connection.reader
        self._is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        has_none = method == "HEAD" or status in (204, 304)
        self._left = 0 if has_none else int(headers.get("content-length", "0"))
        self._is_chunked &= not has_none
        self.is_done = not self._is_chunked and self._left == 0

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, as it comes. `ConnectionLost` if it ends early."""
        try:
            while not self.is_done:
                if self._is_chunked and self._left == 0:
                    self._left = int(await self._reader.readuntil(b"\r\n"), 16)
                    if self._left == 0:
                        await self._reader.readuntil(b"\r\n")
                        self.is_done = True
                        return
                chunk = await self._reader.read(min(self._left, CHUNK_BYTES))
                if not chunk:
                    raise EOFError("the body ended early")
                self._left -= len(chunk)
                if self._left == 0 and self._is_chunked:
                    await self._reader.readexactly(2)
                self.is_done = self._left == 0 and not self._is_chunked
                yield chunk
        except _BROKEN as error:
            raise ConnectionLost(f"the answer broke off: {error}", written=Written.NO) from None


class HttpClient:
    """Requests to one server. For one event loop; any number of tasks."""

    def __init__(self, url: str, *, tls: Tls | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument(f"{url[:200]!r}: expected http://HOST:PORT")
        self.url = url.rstrip("/")
        self._host, self._port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        self._name = parts.netloc
        self._tls = self._context(tls) if parts.scheme == "https" else None
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)
        self._idle: list[_Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        while self._idle:
            connection = self._idle.pop()
            connection.close()
            with suppress(OSError, ssl.SSLError):
                await connection.writer.wait_closed()

    @asynccontextmanager
    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: Body = b""
    ) -> AsyncIterator[HttpAnswer]:
        """Ask; the answer, whose body can be read inside the block."""
        async with self._room:
            connection, answer = await self._exchange(method, target, dict(headers or {}), body)
            try:
                yield answer
            finally:
                can_go_on = answer.is_done and answer.headers.get("connection", "").lower() != "close"
                self._keep(connection) if can_go_on else connection.close()

    async def _exchange(
        self, method: str, target: str, headers: dict[str, str], body: Body
    ) -> tuple[_Connection, HttpAnswer]:
        head = self._head(method, target, headers, body)
        while True:
            connection, is_used = await self._connect()
            try:
                await connection.send(head, body)
                status, received = await connection.head()
                return connection, HttpAnswer(connection, method, status, received)
            except _BROKEN as error:
                connection.close()
                if is_used and method in READS:
                    continue
                written = Written.NO if method in READS else Written.UNKNOWN
                raise ConnectionLost(f"{self.url} did not answer: {error}", written=written) from None
            except BaseException:
                connection.close()
                raise

    def _head(self, method: str, target: str, headers: dict[str, str], body: Body) -> bytes:
        sent = {"host": self._name, **headers}
        if not isinstance(body, bytes | bytearray | memoryview):
            sent["transfer-encoding"] = "chunked"
        elif method not in READS or len(body):
            sent["content-length"] = str(len(body))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
        if any("\r" in line or "\n" in line for line in lines):
            raise InvalidArgument("a header or a path has a line break in it")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    async def _connect(self) -> tuple[_Connection, bool]:
        """A connection, and whether it was used before."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if now - connection.idle_since < IDLE_S_MAX and not connection.reader.at_eof():
                return connection, True
            connection.close()
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(
                    self._host, self._port, ssl=self._tls, limit=HEAD_BYTES_MAX
                )
        except (OSError, TimeoutError) as error:
            raise ConnectFailed(
                f"no server answers on {self.url}: {error}", next_step="run penstock up, or say where the server is"
            ) from None
        own: socket.socket | None = writer.get_extra_info("socket")
        if own is not None:  # a world has none
            for level, option, value in _SILENCE:
                own.setsockopt(level, option, value)
        return _Connection(reader, writer), False

    def _keep(self, connection: _Connection) -> None:
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)

    @staticmethod
    def _context(tls: Tls | None) -> ssl.SSLContext:
        return client_context(tls) if tls is not None else ssl.create_default_context()
