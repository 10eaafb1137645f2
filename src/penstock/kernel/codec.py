"""Records to bytes and back: msgpack of frozen structs, where the union of the structs is the schema.

A record type declares `tag=True` (or a short tag of its own): one `Codec(A | B)` encodes, decodes and validates.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from penstock.kernel.errors import MalformedFrame

__all__ = ["Codec"]

R = TypeVar("R")


class Codec(Generic[R]):
    """Encodes and decodes one union of records.

    >>> class Put(msgspec.Struct, tag=True, frozen=True):
    ...     key: str
    >>> codec = Codec[Put](Put)
    >>> codec.decode(codec.encode(Put("a")))
    Put(key='a')
    """

    __slots__ = ("_decoder", "_encoder", "encode")

    def __init__(self, union: Any) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[R] = msgspec.msgpack.Decoder(union)
        self.encode: Callable[[R], bytes] = self._encoder.encode

    def encode_into(self, record: R, buffer: bytearray, offset: int = 0) -> None:
        """Write the record at `offset` of a buffer, which is cut or grown to end after it."""
        self._encoder.encode_into(record, buffer, offset)

    def decode(self, data: bytes | bytearray | memoryview) -> R:
        """The record, or `MalformedFrame`: whatever the bytes are, nothing else is raised."""
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise MalformedFrame(f"not a record of this protocol: {error}") from None
