"""The server's side of a connection: takes requests and streams, runs their handlers, answers each exactly once.

A request or stream ends with one final frame from the server: RESPONSE, END or ERROR. Until that is sent it counts
against the limits, also when it was cancelled long before: a client cannot have more work running than was agreed. What
always holds: ids rise; each id up to `_last_id` gets one final frame, unless the connection is lost; a peer that does
not read its answers is not read either.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.kernel.errors import (
    Cancelled,
    ConnectionLost,
    DeadlineExceeded,
    InternalError,
    InvalidArgument,
    LimitExceeded,
    NotFound,
    PenstockError,
    ProtocolViolation,
    error_from_record,
)
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wire.connection import SMALL_BYTES, WireConnection
from penstock.plumbing.wire.deadlines import NEVER, DeadlineSweep
from penstock.plumbing.wire.limits import WireLimits
from penstock.plumbing.wire.message import ERROR_CODEC, WireCall, WireMessage, as_body, as_bulk
from penstock.plumbing.wire.protocol.flow import WireFlow
from penstock.plumbing.wire.protocol.frames import Bulk, FrameKind, encode_frame, pack_header
from penstock.plumbing.wire.protocol.hello import HELLO_BYTES_MAX, HELLO_CODEC, WELCOME_CODEC, Welcome, agree
from penstock.plumbing.wire.server_stream import ServerStream
from penstock.plumbing.wire.service import Method, MethodKind
from penstock.plumbing.wire.statistics import Statistics
from penstock.plumbing.wire.workers import Job, Workers

__all__ = ["ServerConnection"]

_RESPONSE: Final = int(FrameKind.RESPONSE)
_UNARY: Final = MethodKind.UNARY
log = get_logger()


class ServerConnection(WireConnection):
    """One client of a server."""

    role = "server"

    def __init__(
        self,
        limits: WireLimits,
        statistics: Statistics,
        *,
        methods: list[Method],
        token: str | None,
        workers: Workers,
        on_made: Callable[["ServerConnection"], None],
        on_lost: Callable[["ServerConnection"], None],
    ) -> None:
        super().__init__(limits, statistics, HELLO_BYTES_MAX)
        self._methods = methods
        self._token = token
        self._workers = workers
        self._tell_made = on_made
        self._tell_lost = on_lost
        self._jobs: dict[int, Job] = {}
        self._request_bytes = 0  # of those jobs
        self._streams: dict[int, ServerStream] = {}
        self._last_id_seen = 0
        self._is_welcome = False
        self._is_going_away = False
        self._sweep = DeadlineSweep(self._loop, self._expire)
        self._busy_at = self._began_at
        self._on[FrameKind.HELLO] = self._on_hello
        self._on[FrameKind.CLOSE] = self._on_close

    # The hello, and the end.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._tell_made(self)

    def _on_hello(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        hello = HELLO_CODEC.decode(body)
        version = agree(hello, self._token)
        self.peer_frame_bytes_max = hello.frame_bytes_max
        self.peer_window = hello.stream_window_bytes
        self._parser.frame_bytes_max = self.limits.frame_bytes_max
        self._is_welcome = True
        self._on[FrameKind.HELLO] = self._on_unexpected
        self._on[FrameKind.REQUEST] = self._on_request
        self._on[FrameKind.OPEN] = self._on_open
        self._on[FrameKind.MESSAGE] = self._on_message
        self._on[FrameKind.END] = self._on_end
        self._on[FrameKind.CREDIT] = self._on_credit
        self._on[FrameKind.CANCEL] = self._on_cancel
        self._on[FrameKind.PING] = self._on_ping
        welcome = Welcome.of(self.limits, version, [known.name for known in self._methods])
        self.queue(encode_frame(FrameKind.WELCOME, body=WELCOME_CODEC.encode(welcome)))

    def _on_close(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        why = error_from_record(ERROR_CODEC.decode(body))
        self._note_end(ConnectionLost(f"the client closed it: {why.message}"))
        self.close()

    def go_away(self) -> None:
        """Take no more requests, finish those in flight, then close."""
        if not self._is_going_away and not self.is_closing:
            self._is_going_away = True
            if self._is_welcome:  # a peer that was not welcomed has sent no request, and expects no other frame first
                self.queue(pack_header(0, FrameKind.GOAWAY, 0, self._last_id, 0, 0))
            self._close_if_done()

    def _close_if_done(self) -> None:
        if self._is_going_away and not self._jobs and not self._streams:
            self.close()

    def _on_lost(self, reason: PenstockError) -> None:
        self._sweep.close()
        lost = ConnectionLost(reason.message)
        for job in list(self._jobs.values()):
            self._workers.stop(job, lost)
        for stream in list(self._streams.values()):
            self._stop_stream(stream, lost)
        self._tell_lost(self)

    # Unary requests.

    def _on_request(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        if id <= self._last_id:
            raise ProtocolViolation("the ids of requests and streams must rise", id=id, last=self._last_id)
        if self._is_going_away:
            return  # the GOAWAY told the client that this one was not taken
        self._last_id = id
        self._statistics.requests += 1
        if method >= len(self._methods):
            self._fail(id, NotFound(f"no method has the number {method}"))
            return
        known = self._methods[method]
        deadline_at = self._heard_at + argument / 1000 if argument else NEVER
        call = WireCall(known.name, self.peer, body, bulk, deadline_at)
        if known.kind is _UNARY:
            jobs, limits = self._jobs, self.limits
            self._request_bytes += len(body) + len(bulk)
            if len(jobs) >= limits.requests_max or self._request_bytes > limits.request_bytes_max:
                raise ProtocolViolation("more requests in flight than agreed", requests=len(jobs))
            jobs[id] = job = Job(id, call, known.handler, self)
            if deadline_at < self._sweep.next_at:
                self._sweep.note(deadline_at)
            self._workers.submit(job)
        elif known.kind is MethodKind.INLINE:
            self._run_inline(id, known, call)
        else:
            self._fail(id, InvalidArgument(f"{known.name} is a stream"))

    def _run_inline(self, id: int, known: Method, call: WireCall) -> None:
        try:
            reply = known.handler(call)
        except PenstockError as error:
            self._fail(id, error)
        except Exception:
            log.exception("handler failed", method=known.name, peer=self.peer)
            self._fail(id, InternalError(f"a defect in the handler of {known.name}"))
        else:
            self._respond(id, reply)

    def on_done(self, job: Job, reply: WireMessage | bytes) -> None:
        """A handler has ended well."""
        del self._jobs[job.id]
        self._request_bytes -= len(job.call.body) + len(job.call.bulk)
        self._respond(job.id, reply)
        if self._is_going_away:
            self._close_if_done()

    def on_failed(self, job: Job, error: PenstockError) -> None:
        """A handler has raised, or was cancelled."""
        del self._jobs[job.id]
        self._request_bytes -= len(job.call.body) + len(job.call.bulk)
        self._fail(job.id, error)
        if self._is_going_away:
            self._close_if_done()

    def _respond(self, id: int, reply: WireMessage | bytes) -> None:
        if type(reply) is bytes and len(reply) < SMALL_BYTES:
            length = len(reply)
            self.queue(pack_header(length, _RESPONSE, 0, id, length, 0) + reply)
            return
        try:
            body, bulk = (reply, b"") if isinstance(reply, bytes) else (as_body(reply.body), as_bulk(reply.bulk))
        except (AttributeError, InvalidArgument):
            log.error("handler returned no message", returned=type(reply).__name__, peer=self.peer)
            self._fail(id, InternalError("a defect in the handler: it returned no message"))
            return
        if len(body) + len(bulk) > self.peer_frame_bytes_max:
            self._fail(id, LimitExceeded(f"the response is above the client's limit of {self.peer_frame_bytes_max}"))
        else:
            self.queue_payload(_RESPONSE, 0, id, 0, body, bulk)

    def _fail(self, id: int, error: PenstockError) -> None:
        self._statistics.errors += 1
        self.queue_error(FrameKind.ERROR, id, error)

    # Streams.

    def _on_open(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        if id <= self._last_id:
            raise ProtocolViolation("the ids of requests and streams must rise", id=id, last=self._last_id)
        if self._is_going_away:
            return
        self._last_id = id
        self._statistics.streams += 1
        if len(self._streams) >= self.limits.streams_max:
            raise ProtocolViolation("more open streams than agreed", streams=len(self._streams))
        if method >= len(self._methods):
            self._fail(id, NotFound(f"no method has the number {method}"))
            return
        known = self._methods[method]
        if known.kind not in (MethodKind.STREAM, MethodKind.PIPELINED):
            self._fail(id, InvalidArgument(f"{known.name} is no stream"))
            return
        deadline_at = self._heard_at + argument / 1000 if argument else NEVER
        flow = WireFlow(window=self.limits.stream_window_bytes, peer_window=self.peer_window)
        stream = ServerStream(self, id, flow, method=known.name, body=body, bulk=bulk, deadline_at=deadline_at)
        self._streams[id] = stream
        self._sweep.note(deadline_at)
        if known.kind is MethodKind.STREAM:
            self._workers.adopt(stream.run(known.handler))
        else:
            stream.attach(known.handler)

    def _on_end(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        stream = self._stream(id)
        if stream is not None and stream.on_end():
            self._touched.append(stream)

    def end_stream(self, stream: ServerStream) -> None:
        """The stream's proper end."""
        if self._streams.pop(stream.id, None) is not None:
            self.queue(pack_header(0, FrameKind.END, 0, stream.id, 0, 0))
            stream.close(None)
            self._close_if_done()

    def fail_stream(self, stream: ServerStream, error: PenstockError) -> None:
        """The stream has failed, for the client too. Nothing happens if it is over."""
        if self._streams.pop(stream.id, None) is not None:
            self._fail(stream.id, error)
            stream.close(error)
            self._close_if_done()

    def _stop_stream(self, stream: ServerStream, error: PenstockError) -> None:
        """End a stream from outside. One with a task fails when that has ended."""
        if not stream.stop(error):
            self.fail_stream(stream, error)

    def _stream(self, id: int) -> ServerStream | None:
        stream = self._streams.get(id)
        if stream is None and id > self._last_id and not self._is_going_away:
            raise ProtocolViolation("a frame of a stream which was never opened", id=id)
        return None if stream is None or stream.is_stopped else stream

    # Cancelling, deadlines, time.

    def _on_cancel(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        if id > self._last_id and not self._is_going_away:
            raise ProtocolViolation("a cancellation without a request", id=id)
        self._statistics.cancellations += 1
        self._stop(id, Cancelled("cancelled by the client"))

    def _stop(self, id: int, reason: PenstockError) -> None:
        if (job := self._jobs.get(id)) is not None:
            self._workers.stop(job, reason)
        elif (stream := self._streams.get(id)) is not None:
            self._stop_stream(stream, reason)

    def _expire(self, now: float) -> float:
        deadlines = [(job.call.deadline_at, id) for id, job in self._jobs.items() if job.stopped_for is None]
        deadlines += [(stream.deadline_at, id) for id, stream in self._streams.items() if not stream.is_stopped]
        for deadline_at, id in deadlines:
            if deadline_at <= now:
                self._statistics.deadlines_exceeded += 1
                self._stop(id, DeadlineExceeded("the deadline passed while the handler ran"))
        return min((at for at, _ in deadlines if at > now), default=NEVER)

    def _on_ping(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        self.queue(pack_header(0, FrameKind.PONG, 0, 0, 0, argument))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_held = True
        if self._transport is not None and not self.is_closing:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.is_closing:
            return
        self._is_held = False
        for stream in list(self._streams.values()):
            stream.wake_senders()
        held, self._held = self._held, []
        self._take(held)
        if not self._is_held and self._transport is not None:
            self._transport.resume_reading()

    def _on_tick(self, now: float) -> None:
        limits = self.limits
        if self._jobs or self._streams or self._last_id != self._last_id_seen:
            self._busy_at, self._last_id_seen = now, self._last_id
        if not self._is_welcome and now - self._began_at > limits.hello_ms / 1000:
            self.close_for(ProtocolViolation(f"no hello within {limits.hello_ms} ms"))
        elif now - self._heard_at > limits.silence_ms / 1000 and not self._is_held:
            self.abort_for(ConnectionLost(f"the client was silent for {limits.silence_ms} ms"))
        elif now - self._busy_at > limits.idle_ms / 1000:
            self.go_away()
