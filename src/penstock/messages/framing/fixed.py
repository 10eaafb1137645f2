"""Length-prefixed frames: four magic bytes, the length, the UUID, then any bytes at all.

    66 33 93 36 | length of what follows, u32 little endian | UUID, 16 bytes | body

The head is that of Gazette's fixed frames. A UUID of zeros is none (at-least-once). A reader that loses its place in a
damaged journal finds the next frame by its magic bytes.
"""

import struct
from collections.abc import Sequence
from typing import Any, ClassVar

from penstock.kernel.errors import InvalidArgument
from penstock.messages.framing.framing import FRAME_BYTES_MAX, Bad, Split
from penstock.messages.uuid import UUID_BYTES, Uuid, UuidRun

__all__ = ["HEAD_BYTES", "MAGIC", "Fixed", "may_begin"]

MAGIC = b"\x66\x33\x93\x36"
_HEAD = struct.Struct("<4sI")
HEAD_BYTES = _HEAD.size
BODY_AT = HEAD_BYTES + UUID_BYTES
_NO_UUID = bytes(UUID_BYTES)


def may_begin(data: bytes | memoryview, at: int) -> bool:
    """Tell whether a frame may begin here, by as much of its magic bytes as there is; at the end one always may."""
    head = bytes(data[at : at + len(MAGIC)])
    return MAGIC.startswith(head)


class Fixed:
    """Frames of bytes. A frame as it is handed on includes its head.

    >>> fixed = Fixed()
    >>> fixed.decode(fixed.encode(b"any bytes", None))
    b'any bytes'
    """

    content_type: ClassVar[str] = "application/x-penstock-fixed"

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def split(self, data: bytes) -> Split:
        split = Split([], [], [])
        at, size = 0, len(data)
        while size - at >= HEAD_BYTES:
            magic, length = _HEAD.unpack_from(data, at)
            if magic != MAGIC or not UUID_BYTES <= length <= self.frame_bytes_max:
                at = self._skip(data, at, split)
                continue
            end = at + HEAD_BYTES + length
            if end > size:
                break
            split.frames.append(data[at:end])
            split.ends.append(end)
            at = end
        if not may_begin(data, at):
            at = self._skip(data, at, split)
        split.consumed = at
        return split

    def _skip(self, data: bytes, at: int, split: Split) -> int:
        """Pass over bytes that are no frame, up to the first place where one may begin.

        That place depends on the bytes alone, not on how they were cut into chunks.
        """
        found = data.find(MAGIC, at + 1)
        behind = found
        if found < 0:
            behind = max(at + 1, len(data) - len(MAGIC) + 1)
            while not may_begin(data, behind):
                behind += 1
        assert isinstance(split.bad, list)
        split.bad.append(Bad(at, behind, "no frame begins here"))
        return behind

    def uuid(self, frame: bytes) -> Uuid | None:
        packed = frame[HEAD_BYTES:BODY_AT]
        return None if packed == _NO_UUID else Uuid.unpack(packed)

    def uuids(self, frames: list[bytes]) -> None:
        """Each frame is looked at by itself."""

    def decode(self, frame: bytes) -> bytes:
        return frame[BODY_AT:]

    def encode(self, value: bytes, uuid: Uuid | None) -> bytes:
        length = UUID_BYTES + len(value)
        if length > self.frame_bytes_max:
            raise InvalidArgument(f"a message of {len(value)} bytes; a frame holds {self.frame_bytes_max}")
        return b"%b%b%b" % (_HEAD.pack(MAGIC, length), _NO_UUID if uuid is None else uuid.packed, value)

    def prepare(self, value: Any) -> Any:
        self.encode(value, None)
        return value

    def prepare_all(self, values: Sequence[Any]) -> list[Any]:
        return [self.prepare(value) for value in values]

    def frames(self, prepared: Sequence[Any], uuids: UuidRun) -> bytes:
        return b"".join([self.encode(value, uuid) for value, uuid in zip(prepared, uuids, strict=True)])

    def acknowledgement(self, uuid: Uuid) -> bytes:
        return self.encode(b"", uuid)
