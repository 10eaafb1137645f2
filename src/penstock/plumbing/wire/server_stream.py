"""The server's side of a stream: run by a handler's task, or by a receiver without one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from penstock.kernel.errors import Cancelled, InternalError, PenstockError
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wire.protocol.flow import WireFlow
from penstock.plumbing.wire.protocol.frames import Bulk
from penstock.plumbing.wire.stream import Receiver, Stream, StreamLink

__all__ = ["ServerLink", "ServerStream"]

log = get_logger()


class ServerLink(StreamLink, Protocol):
    """What a server's stream needs of its connection."""

    def end_stream(self, stream: "ServerStream") -> None: ...


class ServerStream(Stream):
    """A stream some client opened. A handler's task ends it by returning; a receiver with `end` or `fail`."""

    _link: ServerLink

    def __init__(
        self, link: ServerLink, id: int, flow: WireFlow, *, method: str, body: bytes, bulk: Bulk, deadline_at: float
    ) -> None:
        super().__init__(link, id, flow, method=method, body=body, bulk=bulk, deadline_at=deadline_at)
        self._task: asyncio.Task[None] | None = None
        self._stopped_for: PenstockError | None = None

    def end(self) -> None:
        """The proper end: the client gets the sent messages, and then the end of the stream."""
        self._link.end_stream(self)

    def fail(self, error: PenstockError) -> None:
        """The client gets the sent messages, and then this error."""
        self._link.fail_stream(self, error)

    # What the connection calls.

    def run(self, handler: Callable[["ServerStream"], Awaitable[None]]) -> "asyncio.Task[None]":
        """Run the handler in a task, which ends the stream."""
        self._task = asyncio.get_running_loop().create_task(self._run(handler))
        self._task.add_done_callback(self._on_task_done)
        return self._task

    def attach(self, handler: Callable[["ServerStream"], Receiver]) -> None:
        """Let the handler name the receiver."""

        def attach() -> None:
            self._receiver = handler(self)

        self._tell(attach)

    def stop(self, reason: PenstockError) -> bool:
        """Cancel the handler's task, which then fails the stream; False if there is none."""
        if self._task is None:
            return False
        if self._stopped_for is None:
            self._stopped_for = reason
            self.is_stopped = True
            self.close(reason)
            self._task.cancel()
        return True

    async def _run(self, handler: Callable[["ServerStream"], Awaitable[None]]) -> None:
        try:
            await handler(self)
        except PenstockError as error:
            self.fail(self._stopped_for or error)
        except Exception:
            log.exception("handler failed", method=self.method, peer=self.peer)
            self.fail(InternalError(f"a defect in the handler of {self.method}"))
        else:
            if self._stopped_for is None:
                self.end()

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        """The last word where the task said none: it was cancelled, perhaps before it began."""
        self._task = None
        self.fail(self._stopped_for or Cancelled("the handler was cancelled"))
