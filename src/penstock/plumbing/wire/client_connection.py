"""The client's side of a connection: numbers requests and streams, and finds the waiting caller for every answer.

A request which was cancelled, or whose deadline has passed, keeps its place until the server's final frame comes: only
then is the place free at the server too. So this side never has more in flight than the server allows, and never gets
an answer it does not know.
What always holds: every call ends, with a reply or an error, and the error says whether the request can have arrived.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from penstock.kernel.errors import (
    ConnectionLost,
    DeadlineExceeded,
    LimitExceeded,
    Overloaded,
    PenstockError,
    ProtocolViolation,
    ShuttingDown,
    Unavailable,
    Unimplemented,
    error_from_record,
)
from penstock.kernel.version import Release
from penstock.plumbing.ports.ports import Clocks
from penstock.plumbing.wire.client_stream import ClientStream
from penstock.plumbing.wire.connection import SMALL_BYTES, WireConnection
from penstock.plumbing.wire.deadlines import NEVER, DeadlineSweep, deadline_ms_of
from penstock.plumbing.wire.limits import WireLimits
from penstock.plumbing.wire.line import Line
from penstock.plumbing.wire.lookout import Lookout
from penstock.plumbing.wire.message import ERROR_CODEC, WireMessage, as_body, as_bulk
from penstock.plumbing.wire.protocol.flow import WireFlow
from penstock.plumbing.wire.protocol.frames import Bulk, FrameKind, encode_frame, pack_header
from penstock.plumbing.wire.protocol.hello import (
    HELLO_CODEC,
    WELCOME_BYTES_MAX,
    WELCOME_CODEC,
    WireHello,
    check_welcome,
)
from penstock.plumbing.wire.statistics import Statistics

__all__ = ["ClientConnection", "NotTaken", "Pending"]

_REQUEST: Final = int(FrameKind.REQUEST)
_OPEN: Final = int(FrameKind.OPEN)


class NotTaken(Exception):
    """The server was going away, and has not looked at the request: it may be sent again, on another connection."""


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A request whose final frame has not come."""

    id: int
    size: int  # bytes in flight
    deadline_at: float
    reply: "asyncio.Future[WireMessage]"


class ClientConnection(WireConnection):
    """One connection of a channel. `ready` is done when the server has said welcome, or will not."""

    role = "client"

    def __init__(
        self,
        limits: WireLimits,
        statistics: Statistics,
        clock: Clocks,
        *,
        token: str | None,
        on_made: Callable[["ClientConnection"], None],
        on_unusable: Callable[["ClientConnection"], None],
        on_lost: Callable[["ClientConnection"], None],
    ) -> None:
        super().__init__(limits, statistics, WELCOME_BYTES_MAX)
        self._clock = clock
        self._token = token
        self._tell_made = on_made
        self._tell_unusable = on_unusable
        self._tell_lost = on_lost
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self.is_usable = False  # takes new requests
        self.methods: dict[str, int] = {}
        self.peer_release = Release("", 0, 0)  # known after the welcome
        self._requests_max = self._request_bytes_max = self._streams_max = 0
        self._calls: dict[int, Pending] = {}
        self._request_bytes = 0  # of those calls
        self._lookout = Lookout(self._loop, self._calls, self._clock.perf_counter)
        self._streams: dict[int, ClientStream] = {}
        self._abandoned: set[int] = set()  # streams cancelled here, and not yet ended by the server
        self._waiting_calls = Line()
        self._waiting_streams = Line()
        self._deadline_s, self._deadline_ms = 0.0, 0  # of the last request: most have the same
        self._sweep = DeadlineSweep(self._loop, self._expire)
        self._pinged_at = 0.0
        self._ping_ms = limits.keepalive_ms
        self._on[FrameKind.WELCOME] = self._on_welcome
        self._on[FrameKind.CLOSE] = self._on_close

    # The hello, and the end.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._tell_made(self)
        here = transport.get_extra_info("sockname")
        if here is not None and here == transport.get_extra_info("peername"):
            # No process listens there, and the system gave us that very port to call from. We would talk to ourselves,
            # and occupy the port of the real server.
            self.abort_for(ConnectionLost("no process listens there: the connection came back to its caller"))
            return
        self.queue(encode_frame(FrameKind.HELLO, body=HELLO_CODEC.encode(WireHello.of(self.limits, self._token))))

    def _on_welcome(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        welcome = WELCOME_CODEC.decode(body)
        check_welcome(welcome)
        self.peer_frame_bytes_max = welcome.frame_bytes_max
        self.peer_window = welcome.stream_window_bytes
        self.peer_release = Release(welcome.release, welcome.level_min, welcome.level_max)
        self.methods = {name: number for number, name in enumerate(welcome.methods)}
        self._requests_max = welcome.requests_max
        self._request_bytes_max = welcome.request_bytes_max
        self._streams_max = welcome.streams_max
        self._ping_ms = min(self.limits.keepalive_ms, welcome.silence_ms // 3)
        self._parser.frame_bytes_max = self.limits.frame_bytes_max
        self._restart_ticks()
        self._on[FrameKind.WELCOME] = self._on_unexpected
        self._on[FrameKind.RESPONSE] = self._on_response
        self._on[FrameKind.MESSAGE] = self._on_message
        self._on[FrameKind.END] = self._on_end
        self._on[FrameKind.ERROR] = self._on_error
        self._on[FrameKind.CREDIT] = self._on_credit
        self._on[FrameKind.PONG] = self._on_pong
        self._on[FrameKind.GOAWAY] = self._on_goaway
        self.is_usable = True
        if not self.ready.done():
            self.ready.set_result(None)

    def _on_close(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        self._closed_for = error_from_record(ERROR_CODEC.decode(body))
        self.close()

    def _on_goaway(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        self._become_unusable()
        for number in [number for number in self._calls if number > id]:
            self._end_call(number, NotTaken())
        for number in [number for number in self._streams if number > id]:
            self._end_stream(number, ShuttingDown("the server is shutting down, and has not taken the stream"))
        self._abandoned = {number for number in self._abandoned if number <= id}
        self._close_if_done()

    def _become_unusable(self) -> None:
        if self.is_usable:
            self.is_usable = False
            self._tell_unusable(self)
        self._wake_waiting()

    def _close_if_done(self) -> None:
        if not self.is_usable and not self._calls and not self._streams and not self._abandoned:
            self.close()

    def _on_lost(self, reason: PenstockError) -> None:
        self._sweep.close()
        if not self.ready.done():
            self.ready.set_exception(reason)
            self.ready.exception()  # the dialler may have gone: then no task looks at the future, and that is fine
        for number in list(self._calls):
            self._end_call(number, self._lost_error(number, reason))
        for number in list(self._streams):
            self._end_stream(number, self._lost_error(number, reason))
        self._abandoned.clear()
        self._become_unusable()
        self._tell_lost(self)
        self.lost.set_result(None)

    def _lost_error(self, number: int, reason: PenstockError) -> PenstockError:
        if number > self._sent_id:
            return Unavailable(f"not sent: {reason.message}")
        return ConnectionLost(reason.message, reason=reason.code)

    def age_seconds(self) -> float:
        return self._loop.time() - self._began_at

    # Unary requests.

    def has_room(self, size: int | None) -> bool:
        """May a request of this many bytes (a stream, if None) be sent now?"""
        line = self._waiting_streams if size is None else self._waiting_calls
        return not line.waiters and self._fits(size)

    def _fits(self, size: int | None) -> bool:
        if size is None:
            return len(self._streams) + len(self._abandoned) < self._streams_max
        return len(self._calls) < self._requests_max and self._request_bytes + size <= self._request_bytes_max

    def request(
        self, method: str, body: bytes, bulk: Bulk, deadline_s: float, *, is_admitted: bool = False
    ) -> Pending | None:
        """Send a request; None if there is no room for it. `is_admitted`: the caller has waited for room."""
        if type(body) is not bytes:
            body = as_body(body)
        if bulk:
            bulk = as_bulk(bulk)
        size = len(body) + len(bulk)
        number = self.methods.get(method)
        if number is None or size > self.peer_frame_bytes_max:
            raise self._refusal(method, size)
        calls = self._calls
        is_full = len(calls) >= self._requests_max or self._request_bytes + size > self._request_bytes_max
        if (is_full or self._waiting_calls.waiters) and not is_admitted:
            return None
        if deadline_s != self._deadline_s:
            self._deadline_ms = deadline_ms_of(deadline_s)
            self._deadline_s = deadline_s
        self._last_id = id = self._last_id + 1
        loop = self._loop
        deadline_at = loop.time() + deadline_s
        calls[id] = pending = Pending(id, size, deadline_at, loop.create_future())
        self._request_bytes += size
        self._statistics.requests += 1
        if deadline_at < self._sweep.next_at:
            self._sweep.note(deadline_at)
        if size < SMALL_BYTES and not bulk:
            self.queue(pack_header(size, _REQUEST, number, id, size, self._deadline_ms) + body)
        else:
            self.queue_payload(_REQUEST, number, id, self._deadline_ms, body, bulk)
        if len(calls) == 1:
            self._lookout.begin()
        return pending

    def _refusal(self, method: str, size: int) -> PenstockError:
        """Why this cannot be sent to this server at all."""
        if method not in self.methods:
            return Unimplemented(
                f"{self.peer_release.describe()} has no method {method}", next_step="upgrade the server", method=method
            )
        return LimitExceeded(
            f"{size} bytes are above the server's frame limit of {self.peer_frame_bytes_max}",
            next_step="send them in parts, on a stream",
        )

    def cancel_call(self, pending: Pending) -> None:
        """The caller is gone. The handler is cancelled; the place is free when the server has said so."""
        if pending.id in self._calls and not self.is_closing:
            self._statistics.cancellations += 1
            self.queue(pack_header(0, FrameKind.CANCEL, 0, pending.id, 0, 0))

    def _on_response(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        pending = self._calls.pop(id, None)
        if pending is None:
            raise ProtocolViolation("an answer without a request", id=id)
        self._request_bytes -= pending.size
        if not pending.reply.done():
            pending.reply.set_result(WireMessage(body, bulk))
        if self._waiting_calls.waiters:
            self._waiting_calls.wake()
        if not self.is_usable:
            self._close_if_done()

    def _on_error(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        error = error_from_record(ERROR_CODEC.decode(body))
        self._statistics.errors += 1
        self._deliver()  # the messages before the error
        if id in self._calls:
            self._end_call(id, error)
        elif id in self._streams:
            self._end_stream(id, error)
        elif id in self._abandoned:
            self._abandoned.remove(id)
        else:
            raise ProtocolViolation("an error without a request", id=id)
        self._wake_waiting()
        self._close_if_done()

    def _end_call(self, id: int, error: Exception) -> None:
        pending = self._calls.pop(id)
        self._request_bytes -= pending.size
        if not pending.reply.done():
            pending.reply.set_exception(error)

    # Streams.

    def open(self, method: str, body: bytes, bulk: Bulk, deadline_at: float) -> ClientStream:
        """Open a stream, for which there must be room."""
        body, bulk = as_body(body), as_bulk(bulk)
        number = self.methods.get(method)
        if number is None or len(body) + len(bulk) > self.peer_frame_bytes_max:
            raise self._refusal(method, len(body) + len(bulk))
        deadline_ms = deadline_ms_of(deadline_at - self._loop.time())
        self._last_id = id = self._last_id + 1
        self._statistics.streams += 1
        flow = WireFlow(window=self.limits.stream_window_bytes, peer_window=self.peer_window)
        stream = ClientStream(self, id, flow, method=method, body=body, bulk=bulk, deadline_at=deadline_at)
        self._streams[id] = stream
        self._sweep.note(deadline_at)
        self.queue_payload(_OPEN, number, id, deadline_ms, body, bulk)
        return stream

    def end_stream(self, stream: ClientStream) -> None:
        """This side sends no more."""
        stream.flow.end_local()
        self.queue(pack_header(0, FrameKind.END, 0, stream.id, 0, 0))

    def fail_stream(self, stream: ClientStream, error: PenstockError) -> None:
        """This side gives the stream up. Nothing happens if it is over."""
        if self._streams.pop(stream.id, None) is not None:
            self._abandoned.add(stream.id)
            self._statistics.cancellations += 1
            self.queue(pack_header(0, FrameKind.CANCEL, 0, stream.id, 0, 0))
            stream.close(error)

    def _on_end(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        if self._stream(id) is not None:
            self._deliver()  # the messages before the end
            self._end_stream(id, None)
        else:
            self._abandoned.remove(id)
        self._wake_waiting()
        self._close_if_done()

    def _end_stream(self, id: int, error: PenstockError | None) -> None:
        stream = self._streams.pop(id, None)
        if stream is not None:
            stream.close(error)

    def _stream(self, id: int) -> ClientStream | None:
        stream = self._streams.get(id)
        if stream is None and id not in self._abandoned:
            raise ProtocolViolation("a frame of a stream which is not open", id=id)
        return stream

    # Room, deadlines, time.

    async def wait_for_room(self, size: int | None, deadline_at: float) -> None:
        """Wait until a request of `size` bytes (a stream, if None) may be sent, or the connection is unusable."""
        line = self._waiting_streams if size is None else self._waiting_calls
        if len(line.waiters) >= self.limits.waiting_max:
            raise Overloaded(f"{len(line.waiters)} callers wait for room on this connection already")
        try:
            async with asyncio.timeout_at(None if deadline_at == NEVER else deadline_at):
                await line.wait(lambda: not self.is_usable or self._fits(size))
        except TimeoutError:
            raise Overloaded("there was no room on the connection within the deadline") from None

    def _wake_waiting(self) -> None:
        self._waiting_calls.wake()
        self._waiting_streams.wake()

    def resume_writing(self) -> None:
        super().resume_writing()
        for stream in list(self._streams.values()):
            stream.wake_senders()

    def _expire(self, now: float) -> float:
        waiting = [pending for pending in self._calls.values() if not pending.reply.done()]
        streams = list(self._streams.values())
        for pending in waiting:
            if pending.deadline_at <= now:
                self._statistics.deadlines_exceeded += 1
                pending.reply.set_exception(DeadlineExceeded("no answer came within the deadline"))
                self.cancel_call(pending)
        for stream in streams:
            if stream.deadline_at <= now:
                self._statistics.deadlines_exceeded += 1
                self.fail_stream(stream, DeadlineExceeded("the stream had not ended within its deadline"))
        deadlines = [pending.deadline_at for pending in waiting] + [stream.deadline_at for stream in streams]
        return min((at for at in deadlines if at > now), default=NEVER)

    def _on_pong(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        """The arrival of the pong is its whole effect."""

    def _tick_seconds(self) -> float:
        return min(super()._tick_seconds(), self._ping_ms / 4000)

    def _on_tick(self, now: float) -> None:
        if self._pinged_at > self._heard_at:
            if now - self._pinged_at > self.limits.pong_ms / 1000:
                self.abort_for(ConnectionLost(f"the server was silent for {self.limits.pong_ms} ms after a PING"))
        elif self.is_usable and now - min(self._heard_at, self._sent_at) >= self._ping_ms / 1000:
            self._pinged_at = now
            self.queue(pack_header(0, FrameKind.PING, 0, 0, 0, 0))
