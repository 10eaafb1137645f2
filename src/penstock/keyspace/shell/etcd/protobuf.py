"""As much of protobuf's encoding as etcd's messages need: varints, bytes and nested messages.

A message is written from (field number, value) pairs, where zero and empty values are left out, as proto3 does; and
read into the values of each field, in order. Unknown fields are skipped, so that newer servers can add some.
"""

from collections.abc import Iterable
from typing import Final

from penstock.kernel.errors import MalformedFrame

__all__ = ["Fields", "ProtobufMessage", "encode"]

_VARINT: Final = 0
_BYTES: Final = 2
_MASK64: Final = (1 << 64) - 1

Fields = Iterable[tuple[int, int | bytes]]


def encode(fields: Fields) -> bytes:
    """A message of these fields; a nested message is a field of its encoding.

    >>> encode([(1, b"key"), (3, 150), (4, 0), (5, -1)]).hex(" ")
    '0a 03 6b 65 79 18 96 01 28 ff ff ff ff ff ff ff ff ff 01'
    """
    out = bytearray()
    for number, value in fields:
        if isinstance(value, bytes):
            if value:
                _put_varint(out, number << 3 | _BYTES)
                _put_varint(out, len(value))
                out += value
        elif value:
            _put_varint(out, number << 3 | _VARINT)
            _put_varint(out, value & _MASK64)
    return bytes(out)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


class ProtobufMessage:
    """A message which was read. An absent field is zero, or empty.

    >>> message = ProtobufMessage(bytes.fromhex("0a036b6579 189601 28ffffffffffffffffff01"))
    >>> message.data(1), message.number(3), message.number(4), message.number(5)
    (b'key', 150, 0, -1)
    """

    __slots__ = ("_fields",)

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[int | bytes]] = {}
        position, end = 0, len(data)
        while position < end:
            tag, position = _varint(data, position)
            value: int | bytes | None
            match tag & 7:
                case 0:  # a varint
                    value, position = _varint(data, position)
                case 2:  # bytes
                    size, position = _varint(data, position)
                    value, position = data[position : position + size], position + size
                case 1:  # eight bytes; we use none
                    value, position = None, position + 8
                case 5:  # four bytes; we use none
                    value, position = None, position + 4
                case kind:
                    raise MalformedFrame(f"no protobuf: field {tag >> 3} is of kind {kind}")
            if value is not None:
                self._fields.setdefault(tag >> 3, []).append(value)
        if position != end:
            raise MalformedFrame("no protobuf: the message is cut")

    def number(self, field: int) -> int:
        """A signed 64-bit number."""
        value = self._last(field, 0)
        if not isinstance(value, int):
            raise MalformedFrame(f"no protobuf we know: field {field} is no number")
        return value - (1 << 64) if value >> 63 else value

    def data(self, field: int) -> bytes:
        """Bytes."""
        value = self._last(field, b"")
        if not isinstance(value, bytes):
            raise MalformedFrame(f"no protobuf we know: field {field} is a number")
        return value

    def all_data(self, field: int) -> list[bytes]:
        """Return every byte value of a field, in order."""
        found: list[bytes] = []
        for value in self._fields.get(field, []):
            if not isinstance(value, bytes):
                raise MalformedFrame(f"no protobuf we know: field {field} is a number")
            found.append(value)
        return found

    def text(self, field: int) -> str:
        return self.data(field).decode(errors="replace")

    def has(self, field: int) -> bool:
        return field in self._fields

    def message(self, field: int) -> "ProtobufMessage":
        return ProtobufMessage(self.data(field))

    def messages(self, field: int) -> list["ProtobufMessage"]:
        return [ProtobufMessage(data) for data in self.all_data(field)]

    def _last(self, field: int, default: int | bytes) -> int | bytes:
        values = self._fields.get(field)
        return values[-1] if values else default


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if position >= len(data):
            raise MalformedFrame("no protobuf: the message is cut")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK64, position
        shift += 7
    raise MalformedFrame("no protobuf: a number without an end")
