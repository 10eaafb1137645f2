"""The client's side of a stream: it is over when the server has ended it, or when this side has cancelled it."""

import asyncio
from typing import Protocol

from penstock.kernel.errors import Cancelled, PenstockError
from penstock.plumbing.wire.message import WireMessage
from penstock.plumbing.wire.protocol.flow import FlowState
from penstock.plumbing.wire.stream import Receiver, Stream, StreamLink

__all__ = ["ClientLink", "ClientStream"]


class ClientLink(StreamLink, Protocol):
    """What a client's stream needs of its connection."""

    def end_stream(self, stream: "ClientStream") -> None: ...


class ClientStream(Stream):
    """A stream this side opened."""

    _link: ClientLink
    _over: "asyncio.Future[None] | None" = None

    @property
    def is_over(self) -> bool:
        return self.flow.state is FlowState.CLOSED

    def attach(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def end(self) -> None:
        """Send no more messages. The server may keep sending."""
        if self.flow.may_send:
            self._link.end_stream(self)

    def cancel(self) -> None:
        """Give the stream up. The server's handler is cancelled. Nothing happens if the stream is over."""
        self._link.fail_stream(self, Cancelled("cancelled by this side"))

    async def finish(self) -> WireMessage | None:
        """Send no more, wait until the server has ended the stream, and return its last message.

        With a receiver, that has got the messages, and None is returned.
        """
        self.end()
        if self._receiver is not None:
            self._over = asyncio.get_running_loop().create_future()
            await self._over
            if self.error is not None:
                raise self.error
            return None
        last = None
        async for message in self:
            last = message
        return last

    def close(self, error: PenstockError | None) -> None:
        super().close(error)
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
