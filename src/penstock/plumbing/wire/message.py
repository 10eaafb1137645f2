"""The content of a message: a body and, next to it, bulk. And errors, as records.

A body is a record (usually msgpack, through a `Codec`); bulk is raw bytes which are never encoded. Buffers handed in to
be sent must not be changed afterwards: they may still be waiting to be written.
"""

from typing import Final

import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.errors import ErrorRecord, InvalidArgument, PenstockError
from penstock.plumbing.wire.protocol.frames import Bulk

__all__ = ["ERROR_BYTES_MAX", "ERROR_CODEC", "WireCall", "WireMessage", "as_body", "as_bulk", "encode_error"]

ERROR_BYTES_MAX: Final = 4096  # every side takes frames of this size
ERROR_CODEC: Final = Codec[ErrorRecord](ErrorRecord)


class WireMessage(msgspec.Struct, frozen=True, gc=False):
    """A response, or a message on a stream."""

    body: bytes = b""
    bulk: Bulk = b""


class WireCall(msgspec.Struct, frozen=True, gc=False):
    """A unary request, as its handler gets it."""

    method: str
    peer: str
    body: bytes
    bulk: Bulk
    deadline_at: float  # by the loop's clock; infinite where the client set none


def as_body(body: object) -> bytes:
    """Return the given body as bytes. Nothing else than bytes of some kind is one."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise InvalidArgument(f"a body is bytes, not {type(body).__name__}", next_step="encode records with a Codec")


def as_bulk(bulk: object) -> Bulk:
    """Return the given bulk as a buffer whose len() is its size in bytes. Any contiguous buffer will do."""
    if isinstance(bulk, bytes | bytearray):
        return bulk
    try:
        view = memoryview(bulk)  # type: ignore[arg-type]
        return view if view.itemsize == 1 and view.ndim == 1 and view.c_contiguous else view.cast("B")
    except TypeError as error:
        raise InvalidArgument(f"bulk is a contiguous buffer, not this {type(bulk).__name__}: {error}") from None


def encode_error(error: PenstockError) -> bytes:
    """The error's record; without its details, and cut, if they do not encode or are too long."""
    record = error.to_record()
    try:
        body = ERROR_CODEC.encode(record)
    except (TypeError, ValueError, OverflowError, RecursionError):
        body = b""
    if 0 < len(body) <= ERROR_BYTES_MAX:
        return body
    shorter = msgspec.structs.replace(
        record, message=_short(record.message, 500), next_step=_short(record.next_step, 200), details={}
    )
    return ERROR_CODEC.encode(shorter)


def _short(text: str, characters_max: int) -> str:
    return text[:characters_max].encode(errors="replace").decode()
