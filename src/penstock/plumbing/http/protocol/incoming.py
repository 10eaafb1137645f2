"""The body of one request, on its way from the connection to the handler.

The connection feeds it, the handler takes from it. What always holds: while more than `HELD_BYTES` wait for the handler
the connection is not read, so a client can only send as fast as the handler takes; and a body ends in exactly one way:
complete, or with the error that says why it is not.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

from penstock.kernel.errors import ConnectionLost, DeadlineExceeded, PenstockError, Written

__all__ = ["HELD_BYTES", "BodySource", "Incoming"]

HELD_BYTES: Final = 64 << 10


class BodySource(Protocol):
    """Where a body comes from: a connection."""

    def body_awaited(self, body: "Incoming") -> None:
        """The handler waits for bytes that have not come."""

    def body_taken(self, body: "Incoming") -> None:
        """Fewer bytes wait for the handler."""


class Incoming:
    """One body. Fed by `feed`, `end` and `fail`; read by `take`."""

    __slots__ = ("_chunks", "_error", "_source", "_waiter", "held", "is_awaited", "is_ended")

    def __init__(self, source: BodySource | None = None) -> None:
        self.held = 0  # bytes that wait for the handler
        self.is_ended = False  # all of it has come
        self.is_awaited = False  # the handler has asked for some of it
        self._source = source
        self._chunks: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._error: PenstockError | None = None

    def feed(self, chunk: bytes) -> None:
        if not chunk:
            return  # which would be the end
        self._chunks.append(chunk)
        self.held += len(chunk)
        self._wake()

    def end(self) -> None:
        self.is_ended = True
        self._wake()

    def fail(self, error: PenstockError) -> None:
        """End it early; the bytes so far can still be taken."""
        if not self.is_ended and self._error is None:
            self._error = error
            self._wake()

    def lost(self) -> None:
        """The client is gone. If all of its body has come, that is no matter of the body."""
        self.fail(ConnectionLost("the client went away before the end of its body", written=Written.NO))

    def late(self, silence_ms: int) -> None:
        """The client is silent."""
        self.fail(DeadlineExceeded(f"no byte of the body came for {silence_ms} ms", written=Written.NO, status=408))

    def drop(self) -> int:
        """Forget what waits for the handler, which wants no more; return how much that was."""
        dropped, self.held = self.held, 0
        self._chunks.clear()
        return dropped

    async def take(self) -> bytes:
        """The next bytes; empty at the end. Or the error that ended the body early."""
        self.is_awaited = True
        while not self._chunks:
            if self.is_ended:
                return b""
            if self._error is not None:
                raise self._error
            if self._source is not None:
                self._source.body_awaited(self)
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        chunk = self._chunks.popleft()
        self.held -= len(chunk)
        if self._source is not None:
            self._source.body_taken(self)
        return chunk

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
