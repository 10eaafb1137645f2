"""What a framing is: it cuts bytes into frames, finds a frame's UUID, and makes frames.

A framing holds no position and keeps nothing between calls, so one object serves any number of journals. A defect of a
frame is an `InvalidArgument` or a `Bad` range; the reader, which knows journal and offset, makes the error of it.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from penstock.messages.uuid import Uuid, UuidRun, UuidsInARow

__all__ = ["FRAME_BYTES_MAX", "Bad", "Framing", "Split"]

FRAME_BYTES_MAX = 64 << 20


class Bad(msgspec.Struct, frozen=True):
    """Bytes [begin, end) of the cut data that are no frame."""

    begin: int
    end: int
    why: str


class Split(msgspec.Struct):
    """What cutting gave: frames as they follow each other, and how many bytes are done with.

    `ends[i]` is where frame i ends. It begins where the one before it ended, or after the `Bad` range between them.
    """

    frames: list[bytes]
    ends: list[int]
    bad: Sequence[Bad] = ()
    consumed: int = 0


class Framing(Protocol):
    """Cuts, reads and makes frames of one kind."""

    content_type: ClassVar[str]

    def split(self, data: bytes) -> Split:
        """The complete frames at the front of the data."""
        ...

    def uuid(self, frame: bytes) -> Uuid | None:
        """Return the frame's UUID; None if it has none (at-least-once). InvalidArgument if it is no frame."""
        ...

    def uuids(self, frames: list[bytes]) -> list[UuidsInARow] | None:
        """The UUIDs of all frames, in rows; None if some frame must be looked at by itself."""
        ...

    def decode(self, frame: bytes) -> Any:
        """Return the frame's content, without its UUID. InvalidArgument if it has none."""
        ...

    def encode(self, value: Any, uuid: Uuid | None) -> bytes:
        """A frame. InvalidArgument for a value this framing cannot hold."""
        ...

    def prepare(self, value: Any) -> Any:
        """Return the value as it is now, for `frames`. A later change of it has no effect. Errors as of `encode`."""
        ...

    def prepare_all(self, values: Sequence[Any]) -> list[Any]:
        """Prepare each of many values."""
        ...

    def frames(self, prepared: Sequence[Any], uuids: UuidRun) -> bytes:
        """Return the frames of prepared values, one UUID for each."""
        ...

    def acknowledgement(self, uuid: Uuid) -> bytes:
        """A frame which says nothing but its UUID."""
        ...
