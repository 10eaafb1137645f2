"""Dialler: keeps a channel's connection: makes it when a call needs it, and again when it is lost.

Attempts are made one at a time, with a back-off between them, and only while a call waits for a connection; so an idle
channel leaves a dead server alone. A call made during a pause fails with what the last attempt said, unless the channel
is patient. What always holds: at most one usable connection; one that must go away finishes its work while the next one
serves.
"""

import asyncio

from penstock.kernel.backoff import Backoff
from penstock.kernel.errors import (
    AlreadyClosed,
    ConnectFailed,
    ConnectionLost,
    InvalidArgument,
    Overloaded,
    PenstockError,
    error_from_record,
)
from penstock.plumbing.ports.ports import Clocks
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wire.client_connection import ClientConnection
from penstock.plumbing.wire.limits import WireLimits
from penstock.plumbing.wire.statistics import Statistics
from penstock.plumbing.wire.tls import Tls, client_context

__all__ = ["Dialler", "parse_address"]

log = get_logger()


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`.

    >>> parse_address("[::1]:7070")
    ('::1', 7070)
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidArgument(f"{address!r} is no address: host:port is expected")
    return host.removeprefix("[").removesuffix("]"), int(port)


class Dialler:
    """The connection of one channel."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None,
        tls: Tls | None,
        limits: WireLimits,
        backoff: Backoff,
        patience_s: float,
        statistics: Statistics,
        clock: Clocks,
    ) -> None:
        self.connection: ClientConnection | None = None  # the usable one, if there is one
        self._address = address
        self._host, self._port = parse_address(address)
        self._token = token
        self._ssl = client_context(tls) if tls is not None else None
        self._server_name = (tls.server_name or self._host) if tls is not None else None
        self._limits = limits
        self._backoff = backoff
        self._patience_s = patience_s
        self._statistics = statistics
        self._clock = clock
        # the usable one, and older ones that finish their work, in the order in which they were opened
        self._open: dict[ClientConnection, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._changed: asyncio.Future[None] | None = None  # done when an attempt has ended
        self._failure: PenstockError | None = None  # of the last attempt; None while one is under way
        self._waiting = 0
        self._is_closed = False

    def dial(self) -> None:
        """Have a connection made, if there is none and no attempt is under way."""
        if self._is_closed:
            raise AlreadyClosed("the channel is closed")
        if self.connection is None and self._task is None:
            self._failure = None
            self._task = asyncio.get_running_loop().create_task(self._dial())

    async def wait_for_room(self, size: int | None, deadline_at: float) -> ClientConnection:
        """A usable connection with room for a request of `size` bytes (for a stream, if None)."""
        while True:
            connection = await self.wait_for_connection(deadline_at)
            if not connection.has_room(size):
                await connection.wait_for_room(size, deadline_at)
            if connection.is_usable:
                return connection

    async def wait_for_connection(self, deadline_at: float) -> ClientConnection:
        """A usable connection, or the reason why there is none."""
        if self._waiting >= self._limits.waiting_max:
            raise Overloaded(f"{self._waiting} callers wait for a connection to {self._address} already")
        self._waiting += 1
        try:
            async with asyncio.timeout_at(deadline_at):
                return await self._wait()
        except TimeoutError:
            raise ConnectFailed(f"no connection to {self._address} within the deadline") from self._failure
        finally:
            self._waiting -= 1

    async def _wait(self) -> ClientConnection:
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + self._patience_s
        while self.connection is None:
            self.dial()
            failure = self._failure
            if failure is not None and (not failure.retryable or loop.time() >= patient_until):
                raise error_from_record(failure.to_record()) from failure  # many callers: an error for each
            if self._changed is None:
                self._changed = loop.create_future()
            timeout = None if failure is None else patient_until - loop.time()
            await asyncio.wait([self._changed], timeout=timeout)
        return self.connection

    async def _dial(self) -> None:
        try:
            while self.connection is None:
                try:
                    self.connection = await self._connect()
                except PenstockError as error:
                    self._failure = error
                    self._note_change()
                    pause_ms = self._backoff.pause_ms()
                    log.info("connect failed", address=self._address, reason=error.message, pause_ms=round(pause_ms))
                    await asyncio.sleep(pause_ms / 1000)
                    if not self._waiting:
                        return
                    self._failure = None
        finally:
            self._task = None
            self._note_change()

    def _note_change(self) -> None:
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None

    async def _connect(self) -> ClientConnection:
        """Make one attempt: TCP, TLS, hello."""
        loop = asyncio.get_running_loop()
        connection = None
        try:
            async with asyncio.timeout(self._limits.hello_ms / 1000):
                _, connection = await loop.create_connection(
                    self._new_connection, self._host, self._port, ssl=self._ssl, server_hostname=self._server_name
                )
                await connection.ready
        except TimeoutError:
            raise ConnectFailed(f"{self._address} said no welcome within {self._limits.hello_ms} ms") from None
        except OSError as error:  # TLS errors too
            raise ConnectFailed(f"cannot connect to {self._address}: {error}") from error
        except ConnectionLost as error:  # nothing was asked of it yet
            raise ConnectFailed(f"{self._address} said no welcome: {error.message}") from error
        finally:
            if connection is not None and not connection.is_usable:
                connection.close()
        if not connection.is_usable:
            raise ConnectFailed(f"{self._address} closed the connection at once")
        return connection

    def _new_connection(self) -> ClientConnection:
        return ClientConnection(
            self._limits,
            self._statistics,
            self._clock,
            token=self._token,
            on_made=self._on_made,
            on_unusable=self._on_unusable,
            on_lost=self._on_lost,
        )

    def _on_made(self, connection: ClientConnection) -> None:
        self._open[connection] = None

    def _on_lost(self, connection: ClientConnection) -> None:
        self._open.pop(connection, None)

    def _on_unusable(self, connection: ClientConnection) -> None:
        if connection is self.connection:
            self.connection = None
            if connection.age_seconds() * 1000 > self._backoff.pause_ms_max:
                self._backoff.reset()

    async def close(self) -> None:
        """Close all connections. Calls in flight fail with `ConnectionLost`, waiting calls with `AlreadyClosed`."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        connections = list(self._open)
        for connection in connections:
            connection.close()
        await asyncio.gather(*(connection.lost for connection in connections))
