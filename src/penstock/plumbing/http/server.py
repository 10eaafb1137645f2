"""HttpServer: listens, and hands every request to an application, in the event loop it is started from.

    server = await HttpServer.start(app, "127.0.0.1", 0)
    ...
    await server.close(drain_s=5.0)

It takes no signals and starts no threads. What always holds: a connection's trouble is its own, and when `close`
returns no handler runs and no connection is open.
"""

import asyncio
import ssl
from types import TracebackType

from penstock.kernel.errors import ConfigError
from penstock.plumbing.http.app import App
from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.protocol.connection import HttpConnection
from penstock.plumbing.http.statistics import TALLY, HttpStatistics
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wire.tls import Tls, server_context

__all__ = ["HttpServer"]

log = get_logger()


class HttpServer:
    """A listening server. Make one with `HttpServer.start`."""

    def __init__(self, app: App, limits: HttpLimits, name: str) -> None:
        self._app = app
        self._limits = limits
        self._name = name
        self._statistics = app.statistics
        self._connections: set[HttpConnection] = set()
        self._listener: asyncio.Server | None = None
        self._is_tls = False
        self._clock: asyncio.TimerHandle | None = None
        self._all_closed: asyncio.Future[None] | None = None

    @classmethod
    async def start(
        cls, app: App, host: str = "127.0.0.1", port: int = 0, *, tls: Tls | None = None, name: str = "http"
    ) -> "HttpServer":
        """Listen on an address; port 0 takes a free one. `name` is the server's in metrics and logs."""
        server = cls(app, app.limits, name)
        context = _context(tls)
        try:
            server._listener = await asyncio.get_running_loop().create_server(
                server._accept,
                host,
                port,
                ssl=context,
                ssl_handshake_timeout=app.limits.head_ms / 1000 if context is not None else None,
                backlog=1024,
            )
        except OSError as error:
            raise ConfigError(
                f"the {name} server cannot listen on {host}:{port}: {error.strerror or error}",
                next_step="choose another address, or end the program which listens there",
            ) from None
        server._is_tls = context is not None
        server._tick()
        TALLY.add(server._statistics, name)
        log.info("http server started", server=name, url=server.url)
        return server

    @property
    def address(self) -> tuple[str, int]:
        """Host and port it listens on."""
        assert self._listener is not None
        host, port = self._listener.sockets[0].getsockname()[:2]
        return host, port

    @property
    def url(self) -> str:
        """Return the address as a client would write it, without a slash at the end."""
        host, port = self.address
        return f"{'https' if self._is_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def statistics(self) -> HttpStatistics:
        return self._statistics

    async def __aenter__(self) -> "HttpServer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, drain_s: float = 5.0) -> None:
        """Take no more requests, let those in flight end within `drain_s`, then cancel them and close all."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        listener.close()
        if self._clock is not None:
            self._clock.cancel()
        for connection in list(self._connections):
            connection.shutdown()
        await self._wait_for_connections(drain_s)
        tasks = list(self._app.tasks)
        for task in tasks:
            task.cancel()
        for connection in list(self._connections):
            connection.cut()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._wait_for_connections(None)
        TALLY.remove(self._statistics)
        log.info("http server closed", server=self._name, cancelled=len(tasks))

    def _accept(self) -> HttpConnection:
        app = self._app
        connection = HttpConnection(app.serve, self._limits, self._statistics, self._on_closed, app.number)
        self._connections.add(connection)
        return connection

    def _on_closed(self, connection: HttpConnection) -> None:
        self._connections.discard(connection)
        if self._all_closed is not None and not self._connections and not self._all_closed.done():
            self._all_closed.set_result(None)

    async def _wait_for_connections(self, seconds: float | None) -> None:
        if self._connections:
            self._all_closed = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._all_closed], timeout=seconds)

    def _tick(self) -> None:
        self._app.set_date()
        self._clock = asyncio.get_running_loop().call_later(1.0, self._tick)


def _context(tls: Tls | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    context = server_context(tls)
    # Our own wire speaks TLS 1.3 only; at this edge the clients are other people's.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
