"""JSON lines: one object to a line, its UUID under `_meta`, as in `{"_meta":{"uuid":"…"},"user":"ann"}`.

Our publisher writes the UUID first, without a blank, so that it has a fixed position: readers find it without parsing
the line. Lines that other programs wrote are parsed, wherever their `_meta` is. Objects without one fall back to
at-least-once.
"""

from typing import Any, ClassVar

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock.messages.framing.framing import Split
from penstock.messages.uuid import TEXT_BYTES, Uuid

__all__ = ["HEAD", "UUID_AT", "JsonLines"]

HEAD = b'{"_meta":{"uuid":"'
UUID_AT = len(HEAD)
_UUID_END = UUID_AT + TEXT_BYTES
_REST_AT = _UUID_END + len(b'"},')


class _Meta(msgspec.Struct, gc=False):
    uuid: str | None = None


class _WithMeta(msgspec.Struct, gc=False):
    meta: _Meta | None = msgspec.field(name="_meta", default=None)


_meta_decoder = msgspec.json.Decoder(_WithMeta)
_dict_decoder = msgspec.json.Decoder(dict[str, Any])
_encoder = msgspec.json.Encoder()


class JsonLines:
    """JSON lines of one type: a msgspec Struct, a dict, or anything msgspec decodes from an object.

    >>> lines = JsonLines(dict[str, int])
    >>> lines.decode(lines.encode({"n": 1}, None))
    {'n': 1}
    """

    content_type: ClassVar[str] = "application/x-ndjson"

    def __init__(self, kind: Any = dict[str, Any]) -> None:
        self._kind = kind
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)
        is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        self._ignores_meta = is_struct and not kind.__struct_config__.forbid_unknown_fields

    def __repr__(self) -> str:
        return f"JsonLines({getattr(self._kind, '__name__', self._kind)})"

    def split(self, data: bytes) -> Split:
        frames = data.split(b"\n")
        consumed = len(data) - len(frames.pop())  # after the last newline
        ends, end = [], 0
        for frame in frames:
            end += len(frame) + 1
            ends.append(end)
        return Split(frames, ends, (), consumed)

    def uuid(self, frame: bytes) -> Uuid | None:
        if frame.startswith(HEAD) and frame[_UUID_END : _UUID_END + 1] == b'"':
            return Uuid.parse(frame[UUID_AT:_UUID_END])
        try:
            meta = _meta_decoder.decode(frame).meta
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"not a JSON object with a _meta we know: {error}") from None
        return None if meta is None or meta.uuid is None else Uuid.parse(meta.uuid)

    def decode(self, frame: bytes) -> Any:
        try:
            return self._decoder.decode(frame) if self._ignores_meta else self._decode_rest(frame)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"not a JSON line of this type: {error}") from None

    def _decode_rest(self, frame: bytes) -> Any:
        """Into a type which would take `_meta` for one of its own keys."""
        if frame.startswith(HEAD) and frame[_UUID_END:_REST_AT] == b'"},':
            return self._decoder.decode(b"{" + frame[_REST_AT:])
        value = _dict_decoder.decode(frame)
        value.pop("_meta", None)
        return msgspec.convert(value, self._kind)

    def encode(self, value: Any, uuid: Uuid | None) -> bytes:
        body = _encoder.encode(value)
        if body[:1] != b"{" or (b'"_meta"' in body and _meta_decoder.decode(body).meta is not None):
            raise InvalidArgument("a JSON message is an object, and its key _meta is ours")
        if uuid is None:
            return body + b"\n"
        rest = b"}}\n" if body == b"{}" else b"},%b\n" % body[1:]
        return b'%b%b"%b' % (HEAD, uuid.text.encode(), rest)

    def acknowledgement(self, uuid: Uuid) -> bytes:
        return b'%b%b"}}\n' % (HEAD, uuid.text.encode())
