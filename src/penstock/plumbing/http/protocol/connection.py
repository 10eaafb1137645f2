"""Connection: one client's HTTP/1.1 connection: bytes to requests, answers to bytes, and the limits of both.

httptools (the parser of Node.js) reads heads and bodies; everything else about a connection is here. Requests of one
connection are answered one at a time, in the order in which they came. Every wait for the client is bounded, and each
limit ends the connection with an answer where HTTP still allows one, a count, and a log line that says what happened.
It needs an event loop with transports and timers, and nothing else of the system.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

import httptools
import msgspec

from penstock.plumbing.http.limits import HttpLimits
from penstock.plumbing.http.protocol.deadline import Deadline
from penstock.plumbing.http.protocol.heads import ambiguity, target
from penstock.plumbing.http.protocol.incoming import HELD_BYTES, Incoming
from penstock.plumbing.http.request import Request
from penstock.plumbing.http.statistics import HttpStatistics
from penstock.plumbing.process.logs import get_logger

__all__ = ["HttpConnection", "Serve"]

LINGER_MS: Final = 1000  # for a client that still sends, so that it reads why it was refused
FRAMING_BYTES_MAX: Final = 1 << 20  # of a chunked body: sizes, extensions and trailers, apart from the next
FRAMING_PART: Final = 16  # times the body itself: a chunk of one byte has a frame of five or more

_REASONS: Final = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

log = get_logger()

Serve = Callable[["HttpConnection", Request], None]  # begins to answer a request; ends in a call of `answered`


class HttpConnection(asyncio.Protocol):
    """One connection. `is_lost` when it is gone; `on_lost` is then called, once."""

    def __init__(
        self,
        serve: Serve,
        limits: HttpLimits,
        statistics: HttpStatistics,
        on_closed: Callable[["HttpConnection"], None],
        number_of: Callable[[], str],
    ) -> None:
        self.limits = limits
        self.statistics = statistics
        self.is_lost = False
        self.is_draining = False  # the server closes: the answer under way is the last one
        self.on_lost: Callable[[], None] | None = None
        self.peer = "unknown"
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)  # until the connection is made
        self._serve = serve
        self._on_closed = on_closed
        self._number_of = number_of
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._is_secure = False
        # the request that is being received
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._in_head = False  # between the first byte of a head and its end
        self._head_bytes = 0  # received, of a head that has not ended
        self._header_bytes = 0  # parsed, of the headers so far
        self._body: Incoming | None = None
        self._body_bytes = 0
        self._framing = 0  # bytes of a chunked body that were not its content
        # the requests that wait for an answer
        self._current: Request | None = None
        self._waiting: deque[Request] = deque()
        self._is_over = False  # no more requests are taken
        self._unread = 0  # bytes of a body that came after its answer
        self._is_last = False  # the client said that it sends no request after this one
        self._deadline = Deadline(self._loop)  # of what the client must do next
        self._write_timer: asyncio.TimerHandle | None = None
        self._reading_paused = False
        self._drained: asyncio.Future[None] | None = None  # while the transport takes no more

    # the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's have no class in common with asyncio's
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) >= 2 else "unknown"
        self._is_secure = transport.get_extra_info("sslcontext") is not None
        self.statistics.connections_opened += 1
        self.statistics.connections_now += 1
        if self.statistics.connections_now > self.limits.connections_max:
            self.statistics.connections_refused += 1
            self._refuse(503, f"the server has {self.limits.connections_max} connections already")
        else:
            self._deadline.set(self.limits.head_ms, self._head_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self.statistics.connections_now -= 1
        self._deadline.close()
        if self._write_timer is not None:
            self._write_timer.cancel()
        self._waiting.clear()
        if self._body is not None:
            self._body.lost()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        on_lost, self.on_lost = self.on_lost, None
        if on_lost is not None:
            on_lost()
        self._on_closed(self)

    def data_received(self, data: bytes) -> None:
        if self._is_over or self.is_closing:
            self._discard(len(data))
            return
        was_in_head, body, heads = self._in_head, self._body, self.statistics.requests_read
        if body is not None:
            self._framing += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, "no other protocol than HTTP/1.1 is spoken here")
            return
        except httptools.HttpParserError as error:
            self._refuse(400, f"this is no HTTP request: {_reason(error)}")
            return
        if self._in_head:
            if body is None and heads == self.statistics.requests_read:
                # All of it belongs to a head that has not ended: also what httptools still holds of a header.
                self._head_bytes += len(data)
                if self._head_bytes > self.limits.head_bytes_max:
                    self._refuse_head()
            if not was_in_head and self._current is None and not self._is_over:
                self._deadline.set(self.limits.head_ms, self._head_late)
        elif self._framing > FRAMING_BYTES_MAX + FRAMING_PART * self._body_bytes:
            self._refuse(400, f"a body has more than {FRAMING_BYTES_MAX} bytes between its chunks")

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()
        if self._write_timer is None:
            self._await_reader()

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    # the parser

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = []
        self._in_head = True
        self._head_bytes = self._header_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > self.limits.head_bytes_max:
            self._refuse_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + 4
        if not self._in_head:  # a trailer: no handler reads one, and it must not pass for a header
            if self._header_bytes > self.limits.head_bytes_max:
                self._refuse_head()
            return
        self._headers.append((name.lower(), value))
        if len(self._headers) > self.limits.headers_max:
            self._refuse_head()

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._is_over or self.is_closing:
            return
        if (
            len(self._url) + self._header_bytes > self.limits.head_bytes_max
            or len(self._waiting) >= self.limits.pipelined_max
        ):
            self._refuse_head()
        elif self._parser.should_upgrade():
            self._refuse(400, "no other protocol than HTTP/1.1 is spoken here")
        elif (reason := ambiguity(self._headers)) is not None:
            self._refuse(400, f"this is no HTTP request: {reason}")
        else:
            self._take_head()

    def _take_head(self) -> None:
        found = target(self._url)
        if found is None:
            self._refuse(400, "this is no HTTP request: its target cannot be read")
            return
        path, query = found
        body = self._body = Incoming(self)
        self._body_bytes = self._framing = self._unread = self._header_bytes = 0
        self.statistics.requests_read += 1
        parser = self._parser
        request = Request(
            parser.get_method().decode("latin-1"),
            path,
            query,
            self._headers,
            body,
            self.limits,
            self._number_of(),
            peer=self.peer,
            is_secure=self._is_secure,
            version=parser.get_http_version(),
            keep_alive=parser.should_keep_alive(),
        )
        if not request.keep_alive:
            self._is_last = True
        if self._current is None:
            self._begin(request)
        else:
            self._waiting.append(request)
            self._pause_reading()

    def on_body(self, chunk: bytes) -> None:
        body = self._body
        if body is None or self._is_over:
            return
        self._framing -= len(chunk)
        self._body_bytes += len(chunk)
        if self._current is None:  # it was answered before its body had come
            self._discard(len(chunk))
            return
        body.feed(chunk)
        if body.held > HELD_BYTES:
            self._pause_reading()

    def on_message_complete(self) -> None:
        body, self._body = self._body, None
        self._framing = 0
        if body is None or self._is_over:
            return
        body.end()
        self._deadline.clear()
        if self._is_last:
            self._is_over = True  # what follows is no request
        if self._current is None:
            self._rest()

    # answers

    def _begin(self, request: Request) -> None:
        self._current = request
        self._deadline.clear()
        self._serve(self, request)

    def answered(self, *, keep: bool) -> None:
        """The answer to the present request is complete."""
        self._current = None
        if self.is_closing:
            return
        if not keep or self.is_draining:
            self._close()
        elif self._body is not None:
            self._unread = 0
            self._discard(self._body.drop())
            self._resume_reading()
            self._deadline.set(self.limits.keep_alive_ms, self._idle_late)
        else:
            self._rest()

    def _rest(self) -> None:
        """Take the next request, or wait for it."""
        if self._waiting:
            self._begin(self._waiting.popleft())
        elif self._is_over:
            self._close()
        else:
            self._resume_reading()
            if self._in_head:
                self._deadline.set(self.limits.head_ms, self._head_late)
            else:
                self._deadline.set(self.limits.keep_alive_ms, self._idle_late)

    @property
    def is_closing(self) -> bool:
        return self.is_lost or self.transport.is_closing()

    @property
    def is_full(self) -> bool:
        """Return whether the client has to read before more is written."""
        return self._drained is not None

    async def drained(self) -> None:
        """Wait until the transport takes more, or is gone."""
        while self._drained is not None and not self.is_closing:
            await self._drained

    def body_awaited(self, body: Incoming) -> None:
        current = self._current
        if current is not None and current.needs_continue:
            current.needs_continue = False
            if not body.is_ended and not self.is_closing:
                self.transport.write(_CONTINUE)
        self._deadline.set(self.limits.body_silence_ms, self._body_late)

    def body_taken(self, body: Incoming) -> None:
        if self._reading_paused and body is self._body and body.held <= HELD_BYTES:
            self._resume_reading()

    # the end

    def shutdown(self) -> None:
        """Take no more requests; close after the answer under way."""
        self.is_draining = True
        self._waiting.clear()
        if self._current is None:
            self.transport.close()

    def cut(self) -> None:
        """End it at once, in the middle of an answer that cannot be finished."""
        self.transport.abort()

    def _close(self) -> None:
        """Close once all is sent. A client that still sends would be reset before it reads: see `_linger`."""
        if self._body is None or self._body.is_ended:
            self.transport.close()
        else:
            self._linger()

    def _linger(self) -> None:
        self._is_over = True
        self._unread = 0
        self._resume_reading()
        if self.is_draining or not self.transport.can_write_eof():
            self.transport.close()
        else:
            self.transport.write_eof()
            self._deadline.set(LINGER_MS, self.transport.abort)

    def _discard(self, count: int) -> None:
        self._unread += count
        if self._unread > self.limits.unread_bytes_max:
            self.transport.close()

    def _refuse_head(self) -> None:
        self._refuse(
            431,
            f"a request head has at most {self.limits.head_bytes_max} bytes and {self.limits.headers_max} headers, "
            f"and at most {self.limits.pipelined_max} requests wait on one connection",
        )

    def _refuse(self, status: int, message: str) -> None:
        """Report a bad request, unless an answer is under way: the report would be read as part of it."""
        if self.is_closing or self._is_over:
            return
        self._is_over = True
        self._deadline.clear()
        self.statistics.bad_requests += 1
        log.info("http connection refused", peer=self.peer, status=status, reason=message)
        if self._current is not None:
            self.transport.abort()
            return
        body = msgspec.json.encode({"error": "bad-request", "message": message})
        head = (
            b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            % (status, _REASONS[status], len(body))
        )
        self.transport.write(head + body)
        self._linger()

    # waiting for the client

    def _head_late(self) -> None:
        self.statistics.clients_slow += 1
        self._refuse(408, f"no complete request head came within {self.limits.head_ms} ms")

    def _idle_late(self) -> None:
        self.transport.close()

    def _body_late(self) -> None:
        if self._body is not None:
            self._body.late(self.limits.body_silence_ms)

    def _await_reader(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._write_timer = self._loop.call_later(self.limits.write_stall_ms / 1000, self._reader_late, unsent)

    def _reader_late(self, unsent: int) -> None:
        self._write_timer = None
        if self.transport.get_write_buffer_size() < unsent:
            self._await_reader()  # slow, but it reads
            return
        self.statistics.clients_slow += 1
        log.info("http client cut off", peer=self.peer, reason=f"read nothing for {self.limits.write_stall_ms} ms")
        self.transport.abort()

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self.is_closing:
            self._reading_paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and not self.is_closing:
            self._reading_paused = False
            self.transport.resume_reading()


def _reason(error: httptools.HttpParserError) -> str:
    return str(error.args[0])[:200] if error.args else type(error).__name__
