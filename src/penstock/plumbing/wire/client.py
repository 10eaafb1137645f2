"""Channel: what a client holds. One connection at a time to one server, made again when it is lost.

Errors say what may have happened. Not sent: `ConnectFailed`, `Overloaded` or another `Unavailable`, which are definite
and may be retried. Sent, and the connection lost: `ConnectionLost`. Sent, and no answer in time: `DeadlineExceeded`.
The last two are indeterminate. What the server answered comes back as the error it raised.
What always holds: a request is taken at most once. The channel itself sends one again only if the server has said that
it did not take it, because it was going away.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final

from penstock.kernel.backoff import Backoff
from penstock.kernel.errors import ShuttingDown
from penstock.kernel.version import Release
from penstock.plumbing.ports.ports import Ports, system_ports
from penstock.plumbing.wire.client_connection import NotTaken
from penstock.plumbing.wire.client_stream import ClientStream
from penstock.plumbing.wire.deadlines import NEVER
from penstock.plumbing.wire.dialler import Dialler
from penstock.plumbing.wire.limits import WireLimits
from penstock.plumbing.wire.message import WireMessage
from penstock.plumbing.wire.protocol.frames import Bulk
from penstock.plumbing.wire.statistics import TALLY, Statistics
from penstock.plumbing.wire.stream import Receiver
from penstock.plumbing.wire.tls import Tls

__all__ = ["Channel"]

SENDS_MAX: Final = 3  # of one request, each but the last refused by a server going away


class Channel:
    """A client of one server.

    `deadline_s` is for calls which name none. `patience_s` is how long a call waits for a connection through failed
    attempts; by default the first failed attempt fails it.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        tls: Tls | None = None,
        limits: WireLimits | None = None,
        backoff: Backoff | None = None,
        deadline_s: float = 30.0,
        patience_s: float = 0.0,
        ports: Ports | None = None,
    ) -> None:
        self.address = address
        ports = ports or system_ports()
        self._deadline_s = deadline_s
        self._statistics = Statistics()
        self._dialler = Dialler(
            address,
            token=token,
            tls=tls,
            limits=limits or WireLimits(),
            backoff=backoff or Backoff(ports.chance.generator()),
            patience_s=patience_s,
            statistics=self._statistics,
            clock=ports.clock,
        )
        TALLY.add(self._statistics, "client")

    async def __aenter__(self) -> "Channel":
        self._dialler.dial()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Channel({self.address}, {'connected' if self._dialler.connection is not None else 'not connected'})"

    @property
    def peer_release(self) -> Release | None:
        """The release of the server; None while there is no connection."""
        connection = self._dialler.connection
        return connection.peer_release if connection is not None else None

    def statistics(self) -> Statistics:
        return self._statistics

    async def call(
        self, method: str, body: bytes = b"", bulk: Bulk = b"", *, deadline_s: float | None = None
    ) -> WireMessage:
        """Send a request, wait for its reply. If the caller is cancelled, so is the server's handler."""
        if deadline_s is None:
            deadline_s = self._deadline_s
        deadline_at = None
        connection = self._dialler.connection
        if connection is not None:
            pending = connection.request(method, body, bulk, deadline_s)
            if pending is not None:
                try:
                    return await pending.reply
                except asyncio.CancelledError:
                    connection.cancel_call(pending)
                    raise
                except NotTaken:
                    deadline_at = pending.deadline_at
        return await self._call_later(method, body, bulk, deadline_at or asyncio.get_running_loop().time() + deadline_s)

    async def _call_later(self, method: str, body: bytes, bulk: Bulk, deadline_at: float) -> WireMessage:
        """Send a request when there is a connection with room for it; again, if the server has not taken it."""
        loop = asyncio.get_running_loop()
        for _ in range(SENDS_MAX):
            connection = await self._dialler.wait_for_room(len(body) + len(bulk), deadline_at)
            pending = connection.request(method, body, bulk, deadline_at - loop.time(), is_admitted=True)
            assert pending is not None
            try:
                return await pending.reply
            except asyncio.CancelledError:
                connection.cancel_call(pending)
                raise
            except NotTaken:
                continue
        raise ShuttingDown(f"{self.address} takes no requests")

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        body: bytes = b"",
        bulk: Bulk = b"",
        *,
        deadline_s: float | None = None,
        receiver: Receiver | None = None,
        is_read_only: bool = False,
    ) -> AsyncIterator[ClientStream]:
        """Open a stream.

        Leaving the block normally ends our half and waits for the server's end, so that its errors are not missed; a
        stream of which our half has ended before (as with `is_read_only`) is cancelled if it is not over. Leaving the
        block by an exception cancels it.
        """
        stream = await self.open(method, body, bulk, deadline_s=deadline_s, receiver=receiver)
        try:
            if is_read_only:
                stream.end()
            yield stream
            if stream.flow.may_send:
                await stream.finish()
        finally:
            stream.cancel()

    async def open(
        self,
        method: str,
        body: bytes = b"",
        bulk: Bulk = b"",
        *,
        deadline_s: float | None = None,
        receiver: Receiver | None = None,
    ) -> ClientStream:
        """Open a stream whose end is the caller's business: for streams that live as long as their owner."""
        now = asyncio.get_running_loop().time()
        deadline_at = NEVER if deadline_s is None else now + deadline_s
        connection = await self._dialler.wait_for_room(None, min(deadline_at, now + self._deadline_s))
        stream = connection.open(method, body, bulk, deadline_at)
        if receiver is not None:
            stream.attach(receiver)
        return stream

    async def connect(self, *, deadline_s: float | None = None) -> None:
        """Wait for a connection, or raise why there is none. Calls do this themselves."""
        now = asyncio.get_running_loop().time()
        await self._dialler.wait_for_connection(now + (self._deadline_s if deadline_s is None else deadline_s))

    async def close(self) -> None:
        """Close the connection. Calls in flight fail with `ConnectionLost`."""
        await self._dialler.close()
        TALLY.remove(self._statistics)
