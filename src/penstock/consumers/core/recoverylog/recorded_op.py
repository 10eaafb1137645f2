"""Recorded operations: what a store did to its files, as frames of a journal. Design: exactly-once.md, gazette.md 2.10.

    66 33 93 36 | length, u32 little endian | operation, msgpack | for a Write: its content, raw

Every operation carries a sequence number (one more than the one before), its author, and the checksum of all operations
before it. So operations form a chain, and of the branches which several authors may write only one is a chain: see
`fsm.py`. A file is known by its *fnode*, the number of the operation which created it; paths are links to fnodes.
"""

import struct

import google_crc32c
import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import Offset

__all__ = [
    "Author",
    "Handoff",
    "Op",
    "OpReader",
    "ReadOp",
    "RecordedCreate",
    "RecordedLink",
    "RecordedOp",
    "RecordedWrite",
    "Unlink",
    "encode",
]

MAGIC = b"\x66\x33\x93\x36"
_HEAD = struct.Struct("<4sI")
OP_BYTES_MAX = 1 << 20
CONTENT_BYTES_MAX = 256 << 20

Author = int  # 32 bits, drawn at random for each process that records


class RecordedCreate(msgspec.Struct, frozen=True, tag="c", array_like=True, gc=False):
    """A new empty file, linked at a path. Its fnode is the operation's sequence number."""

    path: str


class RecordedLink(msgspec.Struct, frozen=True, tag="l", array_like=True, gc=False):
    """One more path of a file."""

    fnode: int
    path: str


class Unlink(msgspec.Struct, frozen=True, tag="u", array_like=True, gc=False):
    """One path of a file less. Without any it is gone."""

    fnode: int
    path: str


class RecordedWrite(msgspec.Struct, frozen=True, tag="w", array_like=True, gc=False):
    """Bytes at an offset of a file; they follow the frame."""

    fnode: int
    offset: int
    length: int


class Handoff(msgspec.Struct, frozen=True, tag="h", array_like=True, gc=False):
    """Nothing; its author takes the log over."""


Op = RecordedCreate | RecordedLink | Unlink | RecordedWrite | Handoff


class RecordedOp(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One link of the chain."""

    seq_no: int
    checksum: int  # of every operation before this one
    author: Author
    op: Op


class ReadOp(msgspec.Struct, frozen=True, gc=False):
    """An operation of the log, with its content."""

    recorded: RecordedOp
    begin: Offset
    end: Offset
    content: bytes
    next_checksum: int  # of every operation up to this one


_codec = Codec[RecordedOp](RecordedOp)


def encode(recorded: RecordedOp, content: bytes = b"") -> tuple[bytes, int]:
    """The frame, content and all, and the checksum for the next operation."""
    assert not isinstance(recorded.op, RecordedWrite) or recorded.op.length == len(content)
    body = _codec.encode(recorded)
    return b"%b%b%b" % (_HEAD.pack(MAGIC, len(body)), body, content), _extend(recorded.checksum, body, content)


def _extend(checksum: int, body: bytes, content: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.extend(checksum, body), content))


class OpReader:
    """Cuts chunks of a log into operations. A chunk may end anywhere.

    However many chunks an operation is spread over, its bytes are joined once.
    """

    def __init__(self, offset: Offset) -> None:
        self._pieces: list[bytes] = []  # which make no whole operation yet
        self._at = offset  # where they begin
        self._size = 0
        self._wanted = _HEAD.size  # the number of bytes from which another look is worthwhile

    @property
    def fed_upto(self) -> Offset:
        return Offset(self._at + self._size)

    def feed(self, offset: Offset, data: bytes) -> list[ReadOp]:
        """The operations which are now complete. MalformedFrame if the bytes are no operation."""
        assert offset == self.fed_upto, f"a chunk at {offset}; expected one at {self.fed_upto}"
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return []
        data = b"".join(self._pieces) if len(self._pieces) > 1 else data
        found: list[ReadOp] = []
        at = self._cut(data, found)
        self._pieces = [data[at:]] if at < len(data) else []
        self._at = Offset(self._at + at)
        self._size = len(data) - at
        return found

    def _cut(self, data: bytes, found: list[ReadOp]) -> int:
        """Add all whole operations; where the next one begins. `_wanted` then holds the known part of its size."""
        at, size, base = 0, len(data), self._at
        while True:
            body_at = at + _HEAD.size
            self._wanted = _HEAD.size
            if body_at > size:
                return at
            magic, length = _HEAD.unpack_from(data, at)
            if magic != MAGIC or length > OP_BYTES_MAX:
                raise MalformedFrame(f"no recorded operation begins at {base + at}", begin=base + at)
            content_at = body_at + length
            self._wanted = content_at - at
            if content_at > size:
                return at
            body = data[body_at:content_at]
            recorded = _codec.decode(body)
            end = content_at
            if type(recorded.op) is RecordedWrite:
                end += recorded.op.length
                if not content_at <= end <= content_at + CONTENT_BYTES_MAX:
                    raise MalformedFrame(f"a write of {recorded.op.length} bytes at {base + at}", begin=base + at)
                self._wanted = end - at
                if end > size:
                    return at
            content = data[content_at:end]
            next_checksum = _extend(recorded.checksum, body, content)
            found.append(ReadOp(recorded, Offset(base + at), Offset(base + end), content, next_checksum))
            at = end
