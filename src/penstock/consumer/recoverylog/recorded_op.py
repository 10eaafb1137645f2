"""Recorded operations: what a store did to its files, as frames of a journal. Design: exactly-once.md, gazette.md 2.10.

    66 33 93 36 | length, u32 little endian | operation, msgpack | for a Write: its content, raw

Every operation carries a sequence number (one more than the one before), its author, and the checksum of all operations
before it. So operations form a chain, and of the branches which several authors may write only one is a chain: see
`fsm.py`. A file is known by its *fnode*, the number of the operation which created it; paths are links to fnodes.
"""

import struct

import google_crc32c
import msgspec

from penstock.base.codec import Codec
from penstock.base.errors import MalformedFrame
from penstock.base.ids import Offset

__all__ = ["Author", "Create", "Handoff", "Link", "Op", "OpReader", "ReadOp", "RecordedOp", "Unlink", "Write", "encode"]

MAGIC = b"\x66\x33\x93\x36"
_HEAD = struct.Struct("<4sI")
OP_BYTES_MAX = 1 << 20
CONTENT_BYTES_MAX = 256 << 20

Author = int  # 32 bits, drawn anew for each process which records


class Create(msgspec.Struct, frozen=True, tag="c", array_like=True):
    """A new empty file, linked at a path. Its fnode is the operation's sequence number."""

    path: str


class Link(msgspec.Struct, frozen=True, tag="l", array_like=True):
    """One more path of a file."""

    fnode: int
    path: str


class Unlink(msgspec.Struct, frozen=True, tag="u", array_like=True):
    """One path of a file less. Without any it is gone."""

    fnode: int
    path: str


class Write(msgspec.Struct, frozen=True, tag="w", array_like=True):
    """Bytes at an offset of a file; they follow the frame."""

    fnode: int
    offset: int
    length: int


class Handoff(msgspec.Struct, frozen=True, tag="h", array_like=True):
    """Nothing; its author takes the log over."""


Op = Create | Link | Unlink | Write | Handoff


class RecordedOp(msgspec.Struct, frozen=True, array_like=True):
    """One link of the chain."""

    seq_no: int
    checksum: int  # of every operation before this one
    author: Author
    op: Op


class ReadOp(msgspec.Struct, frozen=True):
    """An operation as it stands in the log, with its content."""

    recorded: RecordedOp
    begin: Offset
    end: Offset
    content: bytes
    next_checksum: int  # of every operation up to this one


_codec = Codec[RecordedOp](RecordedOp)


def encode(recorded: RecordedOp, content: bytes = b"") -> tuple[bytes, int]:
    """The frame, content and all, and the checksum for the next operation."""
    assert not isinstance(recorded.op, Write) or recorded.op.length == len(content)
    body = _codec.encode(recorded)
    return b"%b%b%b" % (_HEAD.pack(MAGIC, len(body)), body, content), _extend(recorded.checksum, body, content)


def _extend(checksum: int, body: bytes, content: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.extend(checksum, body), content))


class OpReader:
    """Cuts chunks of a log into operations. A chunk may end anywhere."""

    def __init__(self, offset: Offset) -> None:
        self._rest = bytearray()
        self._rest_at = offset

    @property
    def fed_upto(self) -> Offset:
        return Offset(self._rest_at + len(self._rest))

    def feed(self, offset: Offset, data: bytes) -> list[ReadOp]:
        """The operations which are now complete. MalformedFrame for what is none."""
        assert offset == self.fed_upto, f"a chunk at {offset}; expected one at {self.fed_upto}"
        self._rest += data
        found, at = [], 0
        while (one := self._cut(self._rest, at)) is not None:
            found.append(one)
            at = one.end - self._rest_at
        del self._rest[:at]
        self._rest_at = Offset(self._rest_at + at)
        return found

    def _cut(self, data: bytearray, at: int) -> ReadOp | None:
        if len(data) - at < _HEAD.size:
            return None
        magic, length = _HEAD.unpack_from(data, at)
        if magic != MAGIC or length > OP_BYTES_MAX:
            raise MalformedFrame(f"no recorded operation begins at {self._rest_at + at}", begin=self._rest_at + at)
        body_at, content_at = at + _HEAD.size, at + _HEAD.size + length
        if content_at > len(data):
            return None
        body = bytes(data[body_at:content_at])
        recorded = _codec.decode(body)
        size = recorded.op.length if isinstance(recorded.op, Write) else 0
        if not 0 <= size <= CONTENT_BYTES_MAX:
            raise MalformedFrame(f"a write of {size} bytes at {self._rest_at + at}", begin=self._rest_at + at)
        end = content_at + size
        if end > len(data):
            return None
        content = bytes(data[content_at:end])
        begin, behind = Offset(self._rest_at + at), Offset(self._rest_at + end)
        return ReadOp(recorded, begin, behind, content, _extend(recorded.checksum, body, content))
