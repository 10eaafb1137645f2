"""Connection: uvicorn's HTTP/1.1 protocol (httptools) with the limits it lacks.

uvicorn bounds neither a request's head nor the time it may take, nor how long a client may leave an answer unread.
Here every one of these ends the connection, with an answer where HTTP still allows one, a count and a log line which
says what happened. The ASGI application finds the connection in `scope["penstock.connection"]`.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import httptools
import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.statistics import HttpStatistics
from penstock.plumbing.process.logs import get_logger

__all__ = ["CONNECTION", "Connection"]

CONNECTION = "penstock.connection"

_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}

log = get_logger()


class Connection(HttpToolsProtocol):
    """One client's connection. `is_lost` once it is gone; `on_lost` is then called, once."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        limits: HttpLimits,
        statistics: HttpStatistics,
        on_closed: Callable[["Connection"], None],
    ) -> None:
        super().__init__(config, state, {}, asyncio.get_running_loop())
        self.limits = limits
        self.statistics = statistics
        self.is_lost = False
        self.on_lost: Callable[[], None] | None = None
        self._on_closed = on_closed
        self._in_head = True
        self._heads = 0  # how many were complete, and became requests
        self._head_bytes = 0  # received, of a head which has not ended
        self._header_bytes = 0  # parsed, of the headers so far
        self._unread_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    @property
    def peer(self) -> str:
        return f"{self.client[0]}:{self.client[1]}" if self.client else "unknown"

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.statistics.connections_opened += 1
        self.statistics.connections_now += 1
        if self.statistics.connections_now > self.limits.connections_max:
            self.statistics.connections_refused += 1
            self._refuse(503, f"the server has {self.limits.connections_max} connections already")
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self.statistics.connections_now -= 1
        self._unset_keepalive_if_required()
        self._stop_timers()
        # Another than the newest request may be running, if they were pipelined: `on_lost` is that one's.
        super().connection_lost(exc)
        self.pipeline.clear()
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost()
        self._on_closed(self)

    def data_received(self, data: bytes) -> None:
        if self.is_closing:
            return
        self._unset_keepalive_if_required()
        was_in_head, heads = self._in_head, self._heads
        if was_in_head:
            self._await_head()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, "no other protocol than HTTP/1.1 is spoken here")
        except httptools.HttpParserError as error:
            self._refuse(400, f"this is no HTTP request: {_reason(error)}")
        else:
            if was_in_head and heads == self._heads:
                # The whole of it belongs to a head which has not ended: also what httptools still holds of a header.
                self._head_bytes += len(data)
                self._check_head()
            self._await_rest()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = self._header_bytes = 0
        self._await_head()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self.limits.head_bytes_max:
            self._refuse_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: no handler reads one, and it must not pass for a header
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value) + 4
        if len(self.headers) > self.limits.headers_max:
            self._refuse_head()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_head_timer()
        if (
            len(self.url) + self._header_bytes > self.limits.head_bytes_max
            or len(self.pipeline) >= self.limits.pipelined_max
        ):
            self._refuse_head()
        if self.transport.is_closing():
            return
        self._unread_bytes = 0
        cast("dict[str, Any]", self.scope)[CONNECTION] = self
        super().on_headers_complete()
        self._heads += 1

    def on_body(self, body: bytes) -> None:
        if not self._heads or self.transport.is_closing():
            return
        if self.cycle.response_complete:
            self._unread_bytes += len(body)
            if self._unread_bytes > self.limits.unread_bytes_max:
                self.transport.close()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        if self._heads and not self.transport.is_closing():
            super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def shutdown(self) -> None:
        if self.pipeline:
            self.pipeline.clear()
        super().shutdown()

    def cut(self) -> None:
        """End it at once, in the middle of an answer which could not be finished."""
        if self._heads:
            self.cycle.disconnected = True  # else uvicorn complains of an answer without an end
        self.transport.abort()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.limits.head_ms / 1000, self._head_late)

    def _await_rest(self) -> None:
        """Bytes of an unread body, after its answer: uvicorn would then wait for the next ones for ever."""
        is_answered = self._heads > 0 and self.cycle.response_complete
        if is_answered and self._head_timer is None and self.timeout_keep_alive_task is None and not self.is_closing:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    @property
    def is_closing(self) -> bool:
        return self.is_lost or self.transport.is_closing()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_timers(self) -> None:
        self._stop_head_timer()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _head_late(self) -> None:
        self._head_timer = None
        self.statistics.clients_slow += 1
        self._refuse(408, f"no complete request head came within {self.limits.head_ms} ms")

    def _await_reader(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._write_timer = self.loop.call_later(self.limits.write_stall_ms / 1000, self._reader_late, unsent)

    def _reader_late(self, unsent: int) -> None:
        self._write_timer = None
        if self.transport.get_write_buffer_size() < unsent:
            self._await_reader()  # slow, but it reads
            return
        self.statistics.clients_slow += 1
        log.info("http client cut off", peer=self.peer, reason=f"read nothing for {self.limits.write_stall_ms} ms")
        self.transport.abort()

    def _check_head(self) -> None:
        if self._head_bytes > self.limits.head_bytes_max:
            self._refuse_head()

    def _refuse_head(self) -> None:
        self._refuse(
            431,
            f"a request head has at most {self.limits.head_bytes_max} bytes and {self.limits.headers_max} headers, "
            f"and at most {self.limits.pipelined_max} requests wait on one connection",
        )

    def _refuse(self, status: int, message: str) -> None:
        """Report a bad request, unless an answer is under way: the report would be read as part of it."""
        if self.transport.is_closing():
            return
        self._stop_timers()
        self.statistics.bad_requests += 1
        log.info("http connection refused", peer=self.peer, status=status, reason=message)
        if self._heads and not self.cycle.response_complete:
            self.transport.abort()
            return
        body = msgspec.json.encode({"error": "bad-request", "message": message})
        head = (
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            % (status, _REASONS[status], len(body))
        )
        self.transport.write(head + body)
        self.transport.close()


def _reason(error: httptools.HttpParserError) -> str:
    return str(error.args[0])[:200] if error.args else type(error).__name__
