"""One end of a simulated connection: the transport that asyncio's protocols write to."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock_lab.world.ports.links import Address, Links
    from penstock_lab.world.process import Life

__all__ = ["WINDOW_BYTES", "Transport"]

WINDOW_BYTES: Final = 256 << 10  # sent, and not read by the other end
READ_BYTES: Final = 64 << 10
HIGH_WATER: Final = 64 << 10


class Transport(asyncio.Transport):
    """One end. Its `peer` is the other."""

    def __init__(self, links: "Links", process: "Life", here: "Address", there: "Address") -> None:
        super().__init__({"peername": there, "sockname": here})
        self.process = process
        self.peer: Transport
        self._links = links
        self._loop = process.loop
        self._protocol: Any = None
        self._there = there
        self._high, self._low = HIGH_WATER, HIGH_WATER // 4
        self._out: deque[bytes] = deque()  # not in the kernel yet
        self._out_bytes = 0
        self._is_writing_paused = False
        self._in_flight = 0  # sent, and not read by the peer
        self._arrives_ns = 0  # of the last piece; the next one arrives later
        self._in = bytearray()
        self._has_eof = False
        self._is_paused = False
        self._is_read_due = False
        self._is_closing = False
        self._is_lost = False
        process.open_links[self] = None

    def __hash__(self) -> int:
        return hash((self._extra["sockname"][1], self._there[1]))  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        return self is other

    @classmethod
    def pair(
        cls, links: "Links", dialler: "Life", listener: "Life", here: "Address", there: "Address"
    ) -> "tuple[Transport, Transport]":
        mine, theirs = cls(links, dialler, here, there), cls(links, listener, there, here)
        mine.peer, theirs.peer = theirs, mine
        return mine, theirs

    # Beginning

    def accept(self, factory: Callable[[], Any]) -> None:
        """Begin on the listener's side, in a turn of its own."""

        def begin() -> None:
            if not self._is_lost:
                self._protocol = factory()
                self._protocol.connection_made(self)
                self._read_soon()

        self.process.later(0, self._loop.call_soon, begin)

    def begin(self, protocol: Any) -> None:
        self._protocol = protocol
        protocol.connection_made(self)
        self._read_soon()

    # Writing

    def write(self, data: Any) -> None:
        if self._is_closing or self._is_lost or not data:
            return
        data = bytes(data)
        self._out.append(data)
        self._out_bytes += len(data)
        self._pump()
        if self._out_bytes > self._high and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _pump(self) -> None:
        """Hand to the kernel what its window takes."""
        while self._out and self._in_flight < WINDOW_BYTES:
            room = WINDOW_BYTES - self._in_flight
            data = self._out.popleft()
            if len(data) > room:
                self._out.appendleft(data[room:])
                data = data[:room]
            self._out_bytes -= len(data)
            self._in_flight += len(data)
            for piece in self._links.pieces(data):
                self._send(len(piece), self.peer._arrive, piece)
        if self._is_closing and not self._out and not self._is_lost:
            self._send(0, self.peer._arrive_end, None)
            self._loop.call_soon(self._lose, None)

    def _send(self, size: int, call: Callable[..., None], *args: Any) -> None:
        links = self._links
        self._arrives_ns = max(self._arrives_ns, links.world.now_ns + links.delay_ns(size))
        source, target = self.process.name, self.peer.process.name
        links.world.at(self._arrives_ns, links.carry, source, target, lambda: call(*args))

    def _read_by_peer(self, size: int) -> None:
        """The peer's window has room again."""
        self._in_flight -= size
        if not self._is_lost:
            self._pump()
            if self._is_writing_paused and self._out_bytes <= self._low and not self._is_lost:
                self._is_writing_paused = False
                self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        if not self._is_lost:
            self._protocol.resume_writing()

    # Reading

    def _arrive(self, data: bytes) -> None:
        if self.process.machine.is_on and (self.process.is_dead or self._is_lost):
            self._send(0, self.peer._arrive_end, ConnectionResetError(104, "Connection reset by peer"))
        elif not self._is_lost and not self.process.is_dead:
            self._in += data
            self._read_soon()

    def _arrive_end(self, error: OSError | None) -> None:
        if self._is_lost or self.process.is_dead:
            return
        if error is not None:
            self._in.clear()
            self._is_closing = True
            self.process.later(0, self._loop.call_soon, self._lose, error)
        else:
            self._has_eof = True
            self._read_soon()

    def _read_soon(self) -> None:
        if not self._is_read_due and not self._is_paused and self._protocol is not None:
            self._is_read_due = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._is_read_due = False
        if self._is_paused or self._is_lost or self._is_closing:
            return
        if self._in:
            size = min(len(self._in), READ_BYTES)
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                space: Any = self._protocol.get_buffer(size)
                size = min(size, len(space))
                space[:size] = self._in[:size]
            data = bytes(self._in[:size])
            del self._in[:size]
            self.process.note("links", f"reads from {self._there[0]}", data)
            links = self._links
            links.world.after(
                links.delay_ns(),
                links.carry,
                self.process.name,
                self.peer.process.name,
                lambda: self.peer._read_by_peer(size),
            )
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                self._protocol.buffer_updated(size)
            else:
                self._protocol.data_received(data)
        self._after_read()

    def _after_read(self) -> None:
        if self._in:
            self._read_soon()
        elif self._has_eof and not self._is_closing and not self._is_lost:
            self._has_eof = False
            if not self._protocol.eof_received():
                self.close()

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._in or self._has_eof:
            self._read_soon()

    def is_reading(self) -> bool:
        return not self._is_paused

    # The end

    def close(self) -> None:
        if not self._is_closing and not self._is_lost:
            self._is_closing = True
            self._pump()

    def abort(self) -> None:
        if not self._is_lost:
            self._is_closing = True
            self._out.clear()
            self._out_bytes = 0
            self._send(0, self.peer._arrive_end, ConnectionResetError(104, "Connection reset by peer"))
            self._loop.call_soon(self._lose, None)

    def reset(self) -> None:
        """A fault: the connection is broken at this end."""
        if not self._is_lost and not self.process.is_dead:
            self.process.note("links", f"reset from {self._there[0]}")
            self._arrive_end(ConnectionResetError(104, "Connection reset by peer"))

    def die(self, *, speaks: bool) -> None:
        """The process is gone. Bytes that the kernel did not have are lost."""
        if not self._is_lost:
            self._is_lost = True
            if speaks:
                unread = ConnectionResetError(104, "Connection reset by peer") if self._in else None
                self._send(0, self.peer._arrive_end, unread)

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self.process.open_links.pop(self, None)
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    # What protocols ask

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def can_write_eof(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._out_bytes
