"""Connection: what both roles share. Bytes in, bytes out, and closing with a reason.

Everything received in one read is taken in one go, and everything to be sent in one turn of the loop leaves in one
write. A connection that breaks the protocol is closed with a CLOSE frame which says why, a log line and a counter;
whatever happens to it, no other connection notices.
What always holds: nothing is taken or sent once the close has begun; `_on_lost` is called exactly once.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

from penstock.kernel.errors import (
    ConnectionLost,
    InternalError,
    MalformedFrame,
    PenstockError,
    ProtocolViolation,
    RemoteError,
)
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wire.limits import SPARE_WINDOW_BYTES, WireLimits
from penstock.plumbing.wire.message import encode_error
from penstock.plumbing.wire.protocol.frames import (
    KIND_MAX,
    Bulk,
    Frame,
    FrameKind,
    FrameParser,
    encode_frame,
    pack_header,
)
from penstock.plumbing.wire.statistics import Statistics
from penstock.plumbing.wire.stream import Stream

__all__ = ["SMALL_BYTES", "WireConnection"]

OnFrame: TypeAlias = Callable[[int, int, int, bytes, Bulk], None]  # method, id, argument, body, bulk

_MESSAGE: Final = int(FrameKind.MESSAGE)
SMALL_BYTES: Final = 1024  # frames below this are counted, not measured
SEPARATE_BYTES: Final = 16 * 1024  # payload from here on is not joined with other frames, which would copy it
FLUSH_FRAMES: Final = 64  # one write has no more frames than this, so that the peer can begin with them,
FLUSH_BYTES: Final = 1024 * 1024  # and is not much longer than this
log = get_logger()


class WireConnection(asyncio.BufferedProtocol):
    """One connection. The roles add what their frames mean."""

    role: str
    _streams: Mapping[int, Stream]  # by their ids

    def __init__(self, limits: WireLimits, statistics: Statistics, hello_bytes_max: int) -> None:
        self.limits = limits
        self.peer = "?"
        self.peer_frame_bytes_max = 0  # what the peer takes: known after the hello
        self.peer_window = 0  # likewise, for streams
        self.is_closing = False
        self.is_writable = False
        self.spare_window_bytes = SPARE_WINDOW_BYTES  # by how much the windows of its streams may still grow
        self._statistics = statistics
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser = FrameParser(hello_bytes_max)
        self._on: list[OnFrame] = [self._on_unexpected] * (KIND_MAX + 1)
        self._is_held = False  # takes no frames for now, or any more;
        self._held: list[Frame] = []  # those it had received already
        self._touched: list[Stream] = []  # streams which got something in this read
        self._last_id = 0  # of the requests and streams, numbered by either side;
        self._sent_id = 0  # up to here, everything was handed to the transport
        self._out: list[Bulk] = []
        self._out_bytes = 0  # of what in _out is not small
        self._has_large = False  # something in _out is too large to be joined
        self._is_flush_due = False  # _flush will be called in this turn of the loop
        self._closed_for: PenstockError | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._began_at = self._heard_at = self._sent_at = self._stalled_at = self._progress_at = self._loop.time()
        self._frames = self._frames_seen = 0

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's have no class in common with asyncio's
        self._transport.set_write_buffer_limits(high=self.limits.write_bytes_max)
        self.is_writable = True
        self.peer = _name(transport.get_extra_info("peername"))
        self._statistics.connections_opened += 1
        self._statistics.connections_now += 1
        self._restart_ticks()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._parser.space()

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_closing:
            return
        frames = self._parser.received(nbytes)
        count = len(frames)
        # The results of these frames are sent together: first the answers made here, then those of the tasks they wake.
        # Tasks run in the order in which they were made ready, so the flush that the first of them asks for comes after
        # all of them.
        was_flush_due, self._is_flush_due = self._is_flush_due, True
        stream = self._streams.get(frames[0][2]) if count == 1 and frames[0][0] == _MESSAGE else None
        if stream is None or stream.is_stopped or self._is_held or self._parser.failure is not None:
            self._heard_at = self._loop.time()  # from which deadlines count
            self._take(frames)
        else:
            _, _, _, argument, body, bulk = frames[0]
            try:
                stream.on_only_message(body, bulk, argument != 0)
            except Exception as error:
                self._break_off(error)
        self._is_flush_due = was_flush_due
        if self._out:
            self._flush_now()
        # Work without a waiter is counted after all that a caller may wait for.
        self._heard_at = self._loop.time()
        self._frames += count
        statistics = self._statistics
        statistics.reads += 1
        statistics.bytes_received += nbytes
        statistics.frames_received += count

    def pause_writing(self) -> None:
        self.is_writable = False
        self._stalled_at = self._loop.time()

    def resume_writing(self) -> None:
        self.is_writable = True

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._tick_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        if self._closed_for is None:
            self._note_end(self._why_lost(exc))
        self.is_closing = self._is_held = True
        self.is_writable = False
        self._statistics.connections_now -= 1
        self._out.clear()
        self._held.clear()
        assert self._closed_for is not None
        self._on_lost(self._closed_for)

    def _why_lost(self, exc: Exception | None) -> PenstockError:
        if exc is not None:
            return ConnectionLost(f"the connection was lost: {exc}")
        if self._parser.is_partial and not self.is_closing:
            return MalformedFrame("the connection ended inside a frame")
        return ConnectionLost("the connection was closed")

    # Frames in.

    def _take(self, frames: list[Frame]) -> None:
        if self._is_held:  # TLS may have had some bytes in hand when reading was paused
            self._held += frames
            return
        try:
            self._take_all(frames)
            if self._parser.failure is not None and not self._held:
                raise self._parser.failure
        except Exception as error:
            self._break_off(error)

    def _break_off(self, error: Exception) -> None:
        """The peer broke the protocol, or we have a defect."""
        if not isinstance(error, PenstockError):
            log.error("connection failed", role=self.role, peer=self.peer, exc_info=error)
            error = InternalError(f"a defect on this side: {type(error).__name__}")
        self.close_for(error)

    def _take_all(self, frames: list[Frame]) -> None:
        on = self._on
        left = iter(frames)
        for kind, method, id, argument, body, bulk in left:
            on[kind](method, id, argument, body, bulk)
            if self._is_held:
                self._held.extend(left)
        if self._touched:
            self._deliver()

    def _deliver(self) -> None:
        touched, self._touched = self._touched, []
        for stream in touched:
            stream.deliver()

    def _on_unexpected(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        raise ProtocolViolation("a frame that is not allowed here", id=id)

    def _on_message(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        stream = self._stream(id)
        if stream is not None and stream.on_message(body, bulk, argument != 0):
            self._touched.append(stream)

    def _on_credit(self, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        stream = self._stream(id)
        if stream is not None:
            stream.on_credit(argument)

    def _stream(self, id: int) -> Stream | None:
        """The stream of that id; None if its frames do not matter any more. Any other id is a violation."""
        raise NotImplementedError

    # Frames out.

    def queue(self, frame: bytes) -> None:
        """Send a small frame, together with whatever else this turn of the loop sends."""
        out = self._out
        out.append(frame)
        if len(out) >= FLUSH_FRAMES:
            self._flush_now()
        elif not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def queue_payload(self, kind: int, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        """Send a frame of any size. Large payload is not copied."""
        length = len(body)
        size = length + len(bulk)
        header = pack_header(size, kind, method, id, length, argument)
        if size < SMALL_BYTES:
            self.queue(b"".join((header, body, bulk)) if bulk else header + body)
            return
        self._out_bytes += size
        if size < SEPARATE_BYTES:
            self.queue(b"".join((header, body, bulk)))
        else:
            self._has_large = True
            self._out += (header, body, bulk)
            self.queue(b"")
        if self._out_bytes > FLUSH_BYTES:
            self._flush_now()

    def write_payload(self, kind: int, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None:
        """The same, and it leaves now, with all that was queued before it."""
        length = len(body)
        size = length + len(bulk)
        if self._out or size >= SEPARATE_BYTES:
            self.queue_payload(kind, method, id, argument, body, bulk)
            self.flush()
        else:
            self._write(b"".join((pack_header(size, kind, method, id, length, argument), body, bulk)))

    def queue_error(self, kind: FrameKind, id: int, error: PenstockError) -> None:
        self.queue(encode_frame(kind, id=id, body=encode_error(error)))

    def flush(self) -> None:
        """Write the queue now. A flush that is due then finds nothing, or later frames."""
        if self._out:
            self._flush_now()

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._out:
            self._flush_now()

    def _flush_now(self) -> None:
        out, self._out = self._out, []
        has_large, self._has_large = self._has_large, False
        self._out_bytes = 0
        self._write(b"" if has_large else b"".join(out), out if has_large else None)

    def _write(self, data: bytes, pieces: list[Bulk] | None = None) -> None:
        """Hand bytes to the transport: data, or pieces which are too large to be joined."""
        if self.is_closing or self._transport is None:
            return
        self._sent_id = self._last_id
        if pieces is None:
            size = len(data)
            self._transport.write(data)
        else:
            size = sum(map(len, pieces))
            self._transport.writelines(pieces)
        self._sent_at = self._loop.time()
        statistics = self._statistics
        statistics.writes += 1
        statistics.bytes_sent += size

    # The end.

    def close(self) -> None:
        """Send the queue, then close."""
        if self.is_closing or self._transport is None:
            return
        self._flush()
        self.is_closing = self._is_held = True
        self._transport.close()
        # A peer that does not read would keep the last frames, and with them the connection, for ever.
        self._linger_timer = self._loop.call_later(self.limits.linger_ms / 1000, self._transport.abort)

    def close_for(self, error: PenstockError) -> None:
        """Close, and say why: to the peer, and in the log."""
        if not self.is_closing:
            self._note_end(error)
            self.queue_error(FrameKind.CLOSE, 0, error)
            self.close()

    def abort_for(self, error: PenstockError) -> None:
        """Close at once, without a word to a peer which does not answer."""
        if not self.is_closing and self._transport is not None:
            self._note_end(error)
            self.is_closing = self._is_held = True
            self._transport.abort()

    def _note_end(self, error: PenstockError) -> None:
        self._closed_for = error
        about = {"role": self.role, "peer": self.peer, "code": error.code, "reason": error.message}
        if isinstance(error, RemoteError):
            self._statistics.connections_broken += 1
            log.warning("connection broken", **about)
        elif isinstance(error, ConnectionLost):
            log.debug("connection closed", **about)  # that is how most of them end
        else:
            log.info("connection closed", **about)

    def _on_lost(self, reason: PenstockError) -> None:
        raise NotImplementedError

    # Time.

    def _tick_seconds(self) -> float:
        """Return how often to look at the time: several times within the shortest limit, and once a second."""
        limits = self.limits
        shortest = min(limits.hello_ms, limits.frame_ms, limits.write_stall_ms, limits.keepalive_ms, limits.pong_ms)
        return min(shortest, limits.silence_ms, limits.idle_ms, 4000) / 4000

    def _restart_ticks(self) -> None:
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        self._tick_timer = self._loop.call_later(self._tick_seconds(), self._tick)

    def _tick(self) -> None:
        self._restart_ticks()
        if self.is_closing:
            return
        now = self._loop.time()
        if self._frames == self._frames_seen:
            self._parser.trim()
        if self._frames != self._frames_seen or not self._parser.is_partial or self._is_held:
            self._frames_seen = self._frames
            self._progress_at = now
        if now - self._progress_at > self.limits.frame_ms / 1000:
            self.close_for(ProtocolViolation(f"a frame was not complete after {self.limits.frame_ms} ms"))
        elif not self.is_writable and now - self._stalled_at > self.limits.write_stall_ms / 1000:
            self.abort_for(ProtocolViolation(f"the peer did not read for {self.limits.write_stall_ms} ms"))
        else:
            self._on_tick(now)

    def _on_tick(self, now: float) -> None:
        raise NotImplementedError


def _name(address: object) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{address[0]}:{address[1]}"
    return str(address) if address else "?"
