"""Frames: the bytes of the wire protocol, without any I/O.

A frame is a header of 24 bytes and a payload. The payload is a body (a record, or any bytes that a method takes) and,
after it, bulk: raw bytes without an encoding. All numbers are little-endian.

    offset  size  field
         0     4  length       bytes of payload after the header
         4     2  kind         see `FrameKind`
         6     2  method       number of the method in REQUEST and OPEN, else 0
         8     8  id           of the request or stream, 0 where the frame concerns the connection
        16     4  body_length  how much of the payload is body; the rest is bulk
        20     4  argument     a deadline in ms, a credit in bytes, an echo number: see `FrameKind`

What always holds: a parser hands out the same frames, and fails at the same frame, however the bytes were cut into
reads; it never holds more than its buffer and one frame; a frame above the limit is refused by its header alone.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, TypeAlias

from penstock.kernel.errors import FrameTooLarge, MalformedFrame, RemoteError
from penstock.plumbing.wire.protocol.blocks import BlockPool

__all__ = ["HEADER_BYTES", "Bulk", "Frame", "FrameKind", "FrameParser", "encode_frame"]

Bulk: TypeAlias = bytes | bytearray | memoryview
Frame: TypeAlias = tuple[int, int, int, int, bytes, Bulk]  # kind, method, id, argument, body, bulk

HEADER: Final = Struct("<IHHQII")
HEADER_BYTES: Final = HEADER.size
pack_header: Final = HEADER.pack
_LENGTH: Final = Struct("<I")
_NO_HEADER: Final = (0, 0, 0, 0, 0, 0)
BUFFER_BYTES_MIN: Final = 32 * 1024  # to begin with; a connection which fills it gets a larger one,
BUFFER_BYTES_MAX: Final = 256 * 1024  # up to this
LARGE_BYTES: Final = 16 * 1024  # payload from here on gets a block of its own
SLAB_BYTES: Final = 2 * LARGE_BYTES  # small frames are cut from copies of this size
VIEW_BYTES: Final = 4 * 1024  # bulk from here on is a view of such a copy, if it is alone in it
POOL_BYTES_MAX: Final = 2 * 1024 * 1024


class FrameKind(IntEnum):
    """What a frame is for. C: only a client sends it; S: only a server; B: both."""

    HELLO = 1  # C: the first frame. Body: `Hello`
    WELCOME = 2  # S: the first frame. Body: `Welcome`
    REQUEST = 3  # C: a unary request. argument: deadline in ms, 0 for none
    RESPONSE = 4  # S: the answer to a REQUEST
    OPEN = 5  # C: opens a stream. argument: deadline in ms, 0 for none
    MESSAGE = 6  # B: a message on a stream; takes credit. argument: 1 if the sender had to wait for it
    END = 7  # B: no more messages from this side; from the server it also ends the stream
    ERROR = 8  # S: the request or stream has failed. Body: `ErrorRecord`
    CANCEL = 9  # C: the client no longer waits for this request or stream
    CREDIT = 10  # B: the receiver has room again. argument: bytes
    PING = 11  # C: are you there? argument: any number
    PONG = 12  # S: yes. argument: that number
    GOAWAY = 13  # S: no request above `id` was or will be taken; those below will be finished
    CLOSE = 14  # B: the last frame: why this side closes the connection. Body: `ErrorRecord`


KIND_MAX: Final = max(FrameKind)


def encode_frame(
    kind: FrameKind, *, method: int = 0, id: int = 0, argument: int = 0, body: bytes = b"", bulk: Bulk = b""
) -> bytes:
    """A whole frame as bytes. The connection builds its frequent frames itself, without copying bulk."""
    header = HEADER.pack(len(body) + len(bulk), kind, method, id, len(body), argument)
    return b"".join((header, body, bulk))


class FrameParser:
    """Turns received bytes into frames: `space()` says where the next bytes go, `received(n)` that n came.

    Small frames are cut from a copy of what a read brought. A large payload gets a block of its own, and its missing
    part is received right into it, together with the header after it: on a stream of bulk, every read brings one whole
    payload to its place, and nothing is put together or moved.
    """

    __slots__ = ("_block", "_blocks", "_buffer", "_end", "_filled", "_header", "failure", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.failure: RemoteError | None = None  # set once: why no frame will follow
        self._buffer = memoryview(bytearray(BUFFER_BYTES_MIN))
        self._end = 0  # how much of the buffer is the beginning of a small frame
        self._block: memoryview | None = None  # for the large payload being received, and the header after it;
        self._filled = 0  # how much of it has arrived,
        self._header = _NO_HEADER  # and the payload's own header
        self._blocks = BlockPool(POOL_BYTES_MAX)

    @property
    def is_partial(self) -> bool:
        """Has a frame begun, and not ended?"""
        return self._end > 0 or self._block is not None

    def trim(self) -> None:
        """Give back memory which is kept for more traffic than there is now."""
        self._blocks.trim()
        if len(self._buffer) > BUFFER_BYTES_MIN and not self.is_partial:
            self._buffer = memoryview(bytearray(BUFFER_BYTES_MIN))

    def space(self) -> memoryview:
        if self._block is not None:
            return self._block[self._filled :]
        return self._buffer[self._end :] if self._end else self._buffer

    def received(self, count: int) -> list[Frame]:
        """The frames completed by `count` more bytes. Look at `failure` afterwards."""
        frames: list[Frame] = []
        if self.failure is None:
            if self._block is not None:
                self._fill(self._block, count, frames)
            elif self._end or count > SLAB_BYTES or count == len(self._buffer):
                self._cut(0, self._end + count, frames)
            else:  # nearly always: one read brought whole small frames, and nothing else; most often one
                slab = bytes(self._buffer[:count])
                if count >= HEADER_BYTES:
                    length, kind, method, id, body_length, argument = HEADER.unpack_from(slab)
                    is_whole = HEADER_BYTES + length == count and length < LARGE_BYTES
                    if is_whole and body_length <= length <= self.frame_bytes_max and kind <= KIND_MAX:
                        body_end = HEADER_BYTES + body_length
                        bulk = memoryview(slab)[body_end:] if length - body_length >= VIEW_BYTES else slab[body_end:]
                        return [(kind, method, id, argument, slab[HEADER_BYTES:body_end], bulk)]
                cut = self._cut_small(slab, frames)
                if cut != count and self.failure is None:
                    self._cut(cut, count, frames)
        return frames

    def _cut(self, position: int, end: int, frames: list[Frame]) -> None:
        """Cut the buffer, from `position` up to `end`, into frames."""
        while end - position >= HEADER_BYTES:
            if _LENGTH.unpack_from(self._buffer, position)[0] >= LARGE_BYTES:
                position = self._begin_large(position, end, frames)
            else:
                slab = bytes(self._buffer[position : min(end, position + SLAB_BYTES)])
                cut = self._cut_small(slab, frames)
                position += cut
                if cut == 0:
                    break
            if self.failure is not None:
                return
        self._keep(position, end)

    def _keep(self, position: int, end: int) -> None:
        """Put the beginning of a small frame where its rest can follow."""
        rest = self._buffer[position:end]
        if end == len(self._buffer) < BUFFER_BYTES_MAX:
            self._buffer = memoryview(bytearray(2 * end))
        self._buffer[: len(rest)] = rest
        self._end = len(rest)

    def _cut_small(self, slab: bytes, frames: list[Frame]) -> int:
        """Cut the small frames at the beginning of the slab; how many bytes they were."""
        unpack = HEADER.unpack_from
        limit = self.frame_bytes_max
        position, size = 0, len(slab)
        while size - position >= HEADER_BYTES:
            length, kind, method, id, body_length, argument = unpack(slab, position)
            if length > limit or body_length > length or kind > KIND_MAX:
                self.failure = _failure(length, kind, body_length, limit)
                break
            start = position + HEADER_BYTES
            end = start + length
            if length >= LARGE_BYTES or end > size:
                break
            if body_length == length:
                frames.append((kind, method, id, argument, slab[start:end], b""))
            else:
                body_end = start + body_length
                frames.append((kind, method, id, argument, slab[start:body_end], slab[body_end:end]))
            position = end
        return position

    def _begin_large(self, position: int, end: int, frames: list[Frame]) -> int:
        """Take the header of a large frame, and the received part of its payload; return where the rest of the buffer
        begins.
        """
        self._header = length, kind, _, _, body_length, _ = HEADER.unpack_from(self._buffer, position)
        if length > self.frame_bytes_max or body_length > length or kind > KIND_MAX:
            self.failure = _failure(length, kind, body_length, self.frame_bytes_max)
            return position
        start = position + HEADER_BYTES
        count: int = min(end - start, length)
        self._block = self._blocks.take(length + HEADER_BYTES)
        self._block[:count] = self._buffer[start : start + count]
        self._filled = 0
        self._fill(self._block, count, frames)
        return start + count

    def _fill(self, block: memoryview, count: int, frames: list[Frame]) -> None:
        """More is in the block: perhaps all of the payload, and perhaps the beginning of the next frame."""
        self._filled += count
        length, kind, method, id, body_length, argument = self._header
        beyond = self._filled - length
        if beyond < 0:
            return
        payload = block[:length].toreadonly()
        bulk = payload[body_length:] if body_length < length else b""
        frames.append((kind, method, id, argument, bytes(payload[:body_length]), bulk))
        self._block = None
        if beyond > 0:
            self._buffer[:beyond] = block[length : length + beyond]
            self._cut(0, beyond, frames)


def _failure(length: int, kind: int, body_length: int, limit: int) -> RemoteError:
    if length > limit:
        return FrameTooLarge(f"a frame of {length} bytes; the limit is {limit}", length=length, limit=limit)
    if kind > KIND_MAX:
        return MalformedFrame(f"no frame has the kind {kind}", kind=kind)
    return MalformedFrame(f"a body of {body_length} bytes in a payload of {length}", body_length=body_length)
