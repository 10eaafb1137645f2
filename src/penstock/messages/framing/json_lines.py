"""JSON lines: one object to a line, its UUID under `_meta`, as in `{"_meta":{"uuid":"…"},"user":"ann"}`.

Our publisher writes the UUID first, without a blank, so that it has a fixed position: readers find it without parsing
the line. Lines that other programs wrote are parsed, wherever their `_meta` is. Objects without one fall back to
at-least-once.
"""

from collections.abc import Sequence
from itertools import accumulate, groupby
from itertools import count as counting
from operator import add
from struct import error as struct_error
from struct import unpack
from typing import Any, ClassVar

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Clock
from penstock.messages.framing.framing import Split
from penstock.messages.uuid import TEXT_BYTES, Uuid, UuidRun, UuidsInARow

__all__ = ["HEAD", "UUID_AT", "JsonLines"]

HEAD = b'{"_meta":{"uuid":"'
UUID_AT = len(HEAD)
_BRACE = ord("{")
_NEXT_HEAD = b"\n" + HEAD
_LOW_END = UUID_AT + 8
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
        ends = list(map(add, accumulate(map(len, frames)), counting(1)))
        return Split(frames, ends, (), consumed)

    def uuid(self, frame: bytes) -> Uuid | None:
        if frame.startswith(HEAD) and frame[_UUID_END : _UUID_END + 1] == b'"':
            return Uuid.parse(frame[UUID_AT:_UUID_END])
        try:
            meta = _meta_decoder.decode(frame).meta
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"not a JSON object with a _meta we know: {error}") from None
        return None if meta is None or meta.uuid is None else Uuid.parse(meta.uuid)

    def uuids(self, frames: list[bytes]) -> list[UuidsInARow] | None:
        if any(frame[:UUID_AT] != HEAD for frame in frames):
            return None
        rows: list[UuidsInARow] = []
        begin = 0
        for shared, same in groupby([frame[_LOW_END : _UUID_END + 1] for frame in frames]):
            count = len(list(same))
            lows = b"".join([frame[UUID_AT:_LOW_END] for frame in frames[begin : begin + count]])
            begin += count
            try:
                first = Uuid.parse(b"00000000" + shared[:-1])
                times = unpack(f">{count}I", bytes.fromhex(lows.decode("ascii")))
            except (InvalidArgument, ValueError, struct_error):
                return None
            if shared[-1:] != b'"':
                return None
            rows.append(UuidsInARow(first.producer, first.flags, [Clock(first.clock | time << 4) for time in times]))
        return rows

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
        rest = self.prepare(value)
        return b"{%b\n" % rest if uuid is None else _line(rest, uuid)

    def prepare(self, value: Any) -> bytes:
        """Return the line without its first brace."""
        try:
            body = _encoder.encode(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise _not_json(error) from None
        if body[0] != _BRACE or b"\n" in body or b'"_meta"' in body:
            _check(body)
        return body[1:]

    def prepare_all(self, values: Sequence[Any]) -> list[bytes]:
        """Encode all values by one call."""
        try:
            lines = _encoder.encode_lines(values)
        except (TypeError, ValueError, RecursionError) as error:
            raise _not_json(error) from None
        rests = lines.split(b"\n{")
        # A raw value may be no object or hold newlines. Then the counts differ, and each value is looked at by itself.
        if lines[:1] != b"{" or not len(rests) == len(values) == lines.count(b"\n") or b'"_meta"' in lines:
            return [self.prepare(value) for value in values]
        rests[0] = rests[0][1:]
        rests[-1] = rests[-1][:-1]
        return rests

    def frames(self, prepared: Sequence[bytes], uuids: UuidRun) -> bytes:
        """UUIDs go between the values. Only eight digits of them differ."""
        texts = uuids.texts()
        if texts is None or b"}" in prepared:  # an object without members has no comma after its UUID
            return b"".join([_line(rest, uuid) for rest, uuid in zip(prepared, uuids, strict=True)])
        lows, shared = texts
        count = len(prepared)
        pieces = [b""] * (3 * count)
        pieces[0::3] = lows
        pieces[1::3] = [shared + b'"},'] * count
        pieces[2::3] = [rest + _NEXT_HEAD for rest in prepared]
        return b"".join([HEAD, *pieces])[: -len(HEAD)]

    def acknowledgement(self, uuid: Uuid) -> bytes:
        return b'%b%b"}}\n' % (HEAD, uuid.text.encode())


def _line(rest: bytes, uuid: Uuid) -> bytes:
    return b'%b%b"}%b%b\n' % (HEAD, uuid.text.encode(), b"" if rest == b"}" else b",", rest)


def _check(body: bytes) -> None:
    """Refuse a body that is no object, holds a newline, or has the key that is ours."""
    if body[:1] != b"{":
        raise InvalidArgument(f"a JSON message is an object, not {body[:60].decode(errors='replace')}")
    if b"\n" in body:
        raise InvalidArgument("a JSON message is one line: this raw value holds a newline")
    if b'"_meta"' in body and _has_meta(body):
        raise InvalidArgument("a JSON message is an object, and its key _meta is ours")


def _has_meta(body: bytes) -> bool:
    try:
        return _meta_decoder.decode(body).meta is not None
    except msgspec.ValidationError:  # a _meta that is not ours at all
        return True
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _not_json(error) from None


def _not_json(error: Exception) -> InvalidArgument:
    return InvalidArgument(f"this cannot be a JSON message: {error}")
