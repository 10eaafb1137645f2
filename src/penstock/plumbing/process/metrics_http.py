"""The metrics endpoint: `/metrics` for Prometheus; `/livez`, `/readyz` and `/healthz` for supervisors, over HTTP/1.1.

Small on purpose: one request per connection, no body is read, and all is bounded: connections at a time, the size of a
request, the seconds a connection may take. `respond` is a pure function from a request's head to the whole answer, and
has one for any bytes: a malformed request harms nothing but itself. With a token, health is one word for requests that
do not bring it.
"""

import asyncio
from hmac import compare_digest
from typing import Final
from urllib.parse import parse_qs

from penstock.kernel.errors import ConfigError
from penstock.plumbing.config.values import Address
from penstock.plumbing.process import metrics
from penstock.plumbing.process.health import Health, answer_of
from penstock.plumbing.process.logs import get_logger

__all__ = ["MetricsServer", "respond"]

CONNECTIONS_MAX: Final = 16
REQUEST_BYTES_MAX: Final = 8 * 1024
CONNECTION_SECONDS_MAX: Final = 5.0

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
_PLAIN = "text/plain; charset=utf-8"
_JSON = "application/json"

log = get_logger()


def respond(head: bytes, health: Health, token: str = "") -> bytes:
    """The whole answer to a request, given its head (request line and headers)."""
    line, *header_lines = head.decode("latin-1").split("\r\n")
    match line.split(" "):
        case [method, target, version] if target.startswith("/") and version.startswith("HTTP/1."):
            pairs = [one.partition(":") for one in header_lines]
            headers = {name.lower(): value.strip() for name, _, value in reversed(pairs)}
        case _:
            return _answer(400, "this is no HTTP request\n")
    if method not in ("GET", "HEAD"):
        return _answer(405, "only GET and HEAD\n", extra="Allow: GET, HEAD\r\n")
    path, _, query = target.partition("?")
    if path == "/metrics":
        body, content_type = metrics.exposition(headers.get("accept", ""))
        answer = _answer(200, body, content_type)
    else:
        shows_all = not token or compare_digest(headers.get("authorization", "").encode(), f"Bearer {token}".encode())
        found = answer_of(health, path, parse_qs(query).get("role", [""])[0], shows_all=shows_all)
        status, text, is_json = found or (404, "here are /metrics, /livez, /readyz and /healthz\n", False)
        answer = _answer(status, text, _JSON if is_json else _PLAIN)
    return answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if method == "HEAD" else answer


def _answer(status: int, body: str | bytes, content_type: str = _PLAIN, extra: str = "") -> bytes:
    content = body.encode() if isinstance(body, str) else body
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\nContent-Length: {len(content)}\r\n"
        f"Cache-Control: no-store\r\nConnection: close\r\n{extra}\r\n"
    )
    return head.encode("ascii") + content


class MetricsServer:
    """Serves the endpoint until closed: `async with MetricsServer(address) as server: …`."""

    def __init__(self, address: Address, health: Health | None = None, token: str = "") -> None:
        self._address = address
        self._health = health or Health()
        self._token = token
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> Address:
        """Return the address; with port 0 in the configuration, the port that the system chose."""
        assert self._server is not None, "the server is not started"
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    async def __aenter__(self) -> "MetricsServer":
        try:
            self._server = await asyncio.start_server(
                self._serve, self._address.host, self._address.port, limit=REQUEST_BYTES_MAX
            )
        except OSError as error:
            raise ConfigError(
                f"the metrics endpoint cannot listen on {self._address}: {error.strerror or error}",
                next_step="choose another metrics.listen, or leave it empty",
            ) from None
        log.info("metrics endpoint started", listen=str(self.address))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._connections.add(task)
        try:
            async with asyncio.timeout(CONNECTION_SECONDS_MAX):
                writer.write(await self._answer(reader))
                await writer.drain()
        except (OSError, TimeoutError):
            pass  # the client may vanish here; no other work depends on it
        except asyncio.CancelledError:
            # Only we cancel, when we close; asyncio would log a connection's task that ends as cancelled.
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return _answer(400, "the request ended early\n")
        except asyncio.LimitOverrunError:
            return _answer(400, f"a request has at most {REQUEST_BYTES_MAX} bytes\n")
        return respond(head, self._health, self._token)
