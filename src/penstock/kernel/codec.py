"""Records to bytes and back: msgpack of frozen structs, where the union of the structs is the schema.

A record type declares `tag=True` (or a short tag of its own): one `Codec(A | B)` encodes, decodes and validates.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from penstock.kernel.errors import FormatTooNew, MalformedFrame
from penstock.kernel.version import VERSION

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

    __slots__ = ("_decoder", "_encoder", "_union", "encode")

    def __init__(self, union: Any) -> None:
        self._union = union
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

    def decode_known(self, data: bytes | bytearray | memoryview, where: str) -> R:
        """Return the record; `FormatTooNew` if it, or a record in it, is of a kind that this release does not know.

        For records that members share: skipping one that another member obeys would make the two differ.
        """
        try:
            return self.decode(data)
        except MalformedFrame as error:
            kind = _unknown_kind(data, self._union)
            if kind is None:
                raise
            raise FormatTooNew(
                f"{where} has a record of the unknown kind {kind!r}; this is Penstock {VERSION}",
                next_step="start the release of Penstock that wrote it, or a newer one",
                kind=str(kind),
            ) from error


def _unknown_kind(data: bytes | bytearray | memoryview, union: Any) -> str | int | None:
    """Return the tag of a record that no struct of the type has; None if the bytes are no records at all."""
    try:
        value = msgspec.msgpack.decode(data)
        return _unknown_tag(value, msgspec.inspect.type_info(union))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _unknown_tag(value: Any, kind: Any) -> str | int | None:
    """Look for the first unknown tag, in the order of the fields."""
    inspect = msgspec.inspect
    if isinstance(kind, inspect.UnionType | inspect.StructType) and not isinstance(value, list | dict):
        return None
    parts: list[tuple[Any, Any]] = []
    match kind:
        case inspect.UnionType(types):
            structs = [each for each in types if isinstance(each, inspect.StructType)]
            tag = _tag_in(value, structs)
            if tag is not None and tag not in [each.tag for each in structs]:
                return tag
            parts = [(value, each) for each in types if not isinstance(each, inspect.StructType) or each.tag == tag]
        case inspect.StructType(fields=fields, array_like=True) if isinstance(value, list):
            items = value[1:] if kind.tag is not None else value
            parts = list(zip(items, [field.type for field in fields], strict=False))
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            parts = [(value.get(field.encode_name), field.type) for field in fields]
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item) if isinstance(value, list):
            parts = [(each, item) for each in value]
        case inspect.TupleType(item_types=types) if isinstance(value, list):
            parts = list(zip(value, types, strict=False))
    return next((found for each in parts if (found := _unknown_tag(*each)) is not None), None)


def _tag_in(value: Any, structs: list[Any]) -> str | int | None:
    """Return the tag that a value has, where these structs have theirs."""
    tag = None
    for struct in structs:
        if struct.array_like and isinstance(value, list) and value:
            tag = value[0]
        elif not struct.array_like and isinstance(value, dict):
            tag = value.get(struct.tag_field)
    return tag if isinstance(tag, str | int) else None
