"""Server: listens, and offers a service to every client whose hello it accepts.

    server = await Server.start(service, "127.0.0.1", 7070, token=token)
    ...
    await server.close(drain_s=5.0)

What always holds: a connection's trouble is its own; `close` ends all of them within the drain and a second, and no
handler runs when it returns.
"""

import asyncio
from types import TracebackType

from penstock.kernel.errors import ConfigError, InvalidArgument, Overloaded, ShuttingDown
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wire.limits import WireLimits
from penstock.plumbing.wire.protocol.hello import METHODS_MAX
from penstock.plumbing.wire.server_connection import ServerConnection
from penstock.plumbing.wire.service import Service
from penstock.plumbing.wire.statistics import TALLY, Statistics
from penstock.plumbing.wire.tls import Tls, server_context
from penstock.plumbing.wire.workers import Workers

__all__ = ["Server"]

log = get_logger()


class Server:
    """A listening server. Make one with `Server.start`."""

    def __init__(self, service: Service, limits: WireLimits, token: str | None) -> None:
        self._methods = service.methods
        self._limits = limits
        self._token = token
        self._statistics = Statistics()
        self._workers = Workers()
        self._connections: dict[ServerConnection, None] = {}  # in the order in which they were opened
        self._all_lost: asyncio.Future[None] | None = None
        self._listener: asyncio.Server | None = None
        self._is_closing = False

    @classmethod
    async def start(
        cls,
        service: Service,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        limits: WireLimits | None = None,
        token: str | None = None,
        tls: Tls | None = None,
    ) -> "Server":
        """Listen on an address; port 0 takes a free one."""
        if len(service.methods) > METHODS_MAX:
            raise InvalidArgument(f"a service has at most {METHODS_MAX} methods")
        if token == "":
            raise InvalidArgument("an empty token protects nothing: give None to ask for none")
        server = cls(service, limits or WireLimits(), token)
        context = server_context(tls) if tls is not None else None
        handshake_seconds = server._limits.hello_ms / 1000 if context is not None else None
        try:
            server._listener = await asyncio.get_running_loop().create_server(
                server._accept, host, port, ssl=context, ssl_handshake_timeout=handshake_seconds
            )
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                next_step="choose another address, or end the program which listens there",
            ) from None
        TALLY.add(server._statistics, "server")
        log.info("wire server started", address=server.address, tls=tls is not None, token=token is not None)
        return server

    @property
    def address(self) -> str:
        """Return the address, as a channel takes it."""
        assert self._listener is not None
        host, port = self._listener.sockets[0].getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def statistics(self) -> Statistics:
        return self._statistics

    async def __aenter__(self) -> "Server":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def renew_connections(self) -> None:
        """Take no more requests on the present connections. Clients open new ones, and lose nothing in flight."""
        for connection in list(self._connections):
            connection.go_away()

    async def close(self, drain_s: float = 5.0) -> None:
        """Take no more requests, let those in flight end within `drain_s`, then close every connection."""
        assert self._listener is not None
        self._is_closing = True
        self._listener.close()
        for connection in list(self._connections):
            connection.go_away()
        await self._wait_for_connections(drain_s)
        for connection in list(self._connections):
            connection.close_for(ShuttingDown("the server is shutting down"))
        await self._wait_for_connections(None)
        await self._workers.close()
        TALLY.remove(self._statistics)

    def _accept(self) -> ServerConnection:
        return ServerConnection(
            self._limits,
            self._statistics,
            methods=self._methods,
            token=self._token,
            workers=self._workers,
            on_made=self._on_made,
            on_lost=self._on_lost,
        )

    def _on_made(self, connection: ServerConnection) -> None:
        self._connections[connection] = None
        if self._is_closing:
            connection.close_for(ShuttingDown("the server is shutting down"))
        elif len(self._connections) > self._limits.connections_max:
            self._statistics.connections_refused += 1
            connection.close_for(Overloaded(f"the server has {self._limits.connections_max} connections already"))

    def _on_lost(self, connection: ServerConnection) -> None:
        self._connections.pop(connection, None)
        if self._all_lost is not None and not self._connections and not self._all_lost.done():
            self._all_lost.set_result(None)

    async def _wait_for_connections(self, seconds: float | None) -> None:
        if self._connections:
            self._all_lost = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._all_lost], timeout=seconds)
