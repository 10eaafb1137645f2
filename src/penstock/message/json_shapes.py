"""JSON lines to columns by their shape: lines with the same keys in the same order are cut all at once, not parsed.

What a program writes looks alike, line after line: `{"account":"…","amount":…}`. The first line says which bytes are
constant (`{"account":"` and `","amount":` and so on) and where values stand between them. NumPy compares the constant
bytes of all lines, eight at a time, and finds the values by the quotes; Arrow makes columns of them. Then the next
shape, if there is one. Texts with escapes, nested values, blanks between keys and values: all that fits no shape.

What always holds: a line is taken only if it is JSON, and its row is what Arrow's JSON reader would make of it. All
others are left, and Arrow reads them. Tests hold one against the other.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.message.columns import I64

__all__ = ["BLOCK_LINES", "Lines", "ShapeReader"]

BLOCK_LINES: Final = 32_768  # to be cut at once: more would not fit into a processor's cache
SHAPES_MAX: Final = 4  # of which a block's lines are cut; lines of a fifth one are left
PADDING: Final = 8  # bytes behind the text, so that any place of it begins a word

_FIELD: Final = re.compile(rb'[{,]"([^"\\]*)":("[^"\\]*"|[^"\\{}\[\],]+)')
_DIGIT, _DOT, _MINUS, _OTHER = range(4)
_CLASSES: Final = np.full(256, _OTHER, np.uint8)
_CLASSES[list(b"0123456789")] = _DIGIT
_CLASSES[ord(".")], _CLASSES[ord("-")] = _DOT, _MINUS
_WORDS: Final = pa.array(["null", "true", "false"])

Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


class Lines(msgspec.Struct, frozen=True):
    """Lines side by side: line n is `text[offsets[n]:offsets[n + 1]]`, with its newline. The text is padded."""

    text: Bytes
    offsets: I64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def content(self) -> Bytes:
        return self.text[:-PADDING]

    @classmethod
    def of(cls, array: Any) -> "Lines":
        """From an Arrow array of binary, which begins at its buffers' begin."""
        offsets = np.frombuffer(array.buffers()[1], np.int32)[: len(array) + 1].astype(np.int64)
        text = np.zeros(int(offsets[-1]) + PADDING, np.uint8)
        text[:-PADDING] = np.frombuffer(array.buffers()[2], np.uint8)[: offsets[-1]]
        return cls(text, offsets)

    def blocks(self) -> "Iterator[Lines]":
        """The same lines, some ten thousand at a time."""
        if len(self) <= BLOCK_LINES:
            yield self
            return
        for first in range(0, len(self), BLOCK_LINES):
            offsets = self.offsets[first : first + BLOCK_LINES + 1]
            yield Lines(self.text[offsets[0] : offsets[-1] + PADDING], offsets - offsets[0])

    def line(self, number: int) -> bytes:
        return self.text[self.offsets[number] : self.offsets[number + 1]].tobytes()

    def pick(self, rows: I64) -> "Lines":
        """Some of the lines, in their order."""
        if len(rows) == len(self):
            return self
        return Lines.of(cut(pa.binary(), self.text, self.offsets[:-1][rows], self.offsets[1:][rows]))


class ShapeReader:
    """Cuts lines into columns of a schema. Fields which it does not name are ignored, missing ones are null."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.is_able = all(_is_plain(field.type) for field in schema)

    def read(self, lines: Lines) -> tuple[list[tuple[I64, Any]], I64]:
        """Tables, each with the numbers of the lines which became its rows; and the numbers of the lines left."""
        if not self.is_able or not len(lines):
            return [], np.arange(len(lines))
        taken: list[tuple[I64, Any]] = []
        is_plain = _without_escapes(lines)
        rest, left = np.flatnonzero(is_plain), [np.flatnonzero(~is_plain)]
        for _ in range(SHAPES_MAX):
            if not len(rest):
                break
            is_taken, table = self._of_first(lines.pick(rest))
            if table is None or not table.num_rows:
                left.append(rest[:1])
                rest = rest[1:]
                continue
            taken.append((rest[is_taken], table))
            rest = rest[~is_taken]
        return taken, np.sort(np.concatenate([rest, *left]))

    def _of_first(self, lines: Lines) -> tuple[Mask, Any]:
        """The lines of the first one's shape, as a table; None if it has no shape, or its values are of other types."""
        shape = _shape_of(lines.line(0))
        is_taken = np.ones(len(lines), np.bool_)
        if shape is None:
            return is_taken, None
        found = _Found.of(lines, shape, is_taken).fitting(is_taken)
        try:
            fits = np.ones(len(found.begins), np.bool_)
            columns = {field.key: self._column(found, field, fits) for field in shape.fields}
            if not fits.all():
                is_taken[is_taken] = fits
                kept = pa.array(fits)
                columns = {key: each if each is None else each.filter(kept) for key, each in columns.items()}
            rows = int(is_taken.sum())
            arrays = [
                columns[field.name].cast(field.type) if field.name in columns else pa.nulls(rows, field.type)
                for field in self.schema
            ]
        except pa.ArrowInvalid:  # a value is none of its column's type: who reads the line one by one will say which
            return is_taken, None
        return is_taken, pa.Table.from_arrays(arrays, schema=self.schema)

    def _column(self, found: "_Found", field: "_Field", fits: Mask) -> Any:
        """A field's values as texts, null where they are null. Lines whose value cannot be taken fit no longer."""
        kind = self.schema.field(field.key).type if field.key in self.schema.names else None
        if field.is_text:
            if kind is not None and not pa.types.is_string(kind):
                raise pa.ArrowInvalid(f"{field.key} is a text")
            return None if kind is None else found.texts(field)
        texts = found.texts(field)
        is_number = _are_numbers(texts)
        if is_number.all():
            if kind is not None and (pa.types.is_string(kind) or pa.types.is_boolean(kind)):
                raise pa.ArrowInvalid(f"{field.key} is a number")
            return texts
        which = np.asarray(pc.fill_null(pc.index_in(texts, value_set=_WORDS), -1))
        if kind is None:
            fits &= is_number | (which >= 0)
            return None
        is_wanted = which > 0 if pa.types.is_boolean(kind) else is_number & (not pa.types.is_string(kind))
        fits &= is_wanted | (which == 0)
        return pc.if_else(pa.array(is_wanted), texts, None)


class _Field(msgspec.Struct, frozen=True):
    """One field of a shape. Its value is behind quote `quote`: a text between two of them, or a number or a word."""

    key: str
    is_text: bool
    quote: int  # the one which opens the text; or else the one behind the key


class _Shape(msgspec.Struct, frozen=True):
    """What lines have in common: `stretches` are constant bytes, and from which quote (-1: the begin) on they stand."""

    fields: tuple[_Field, ...]
    stretches: tuple[tuple[int, int, bytes], ...]
    quotes: int


def _shape_of(line: bytes) -> _Shape | None:
    """The shape of a line; None if it has values which are neither texts nor numbers nor words."""
    fields: list[_Field] = []
    stretches: list[tuple[int, int, bytes]] = []
    at, quotes = 0, 0
    while (found := _FIELD.match(line, at)) is not None and (line[at] == ord("{")) == (at == 0):
        key, is_text = found[1].decode(errors="replace"), found[2][:1] == b'"'
        front = line[at : found.start(2) + is_text]
        if not fields:
            stretches.append((-1, 0, front))
        elif fields[-1].is_text:
            stretches.append((quotes - 1, 1, front))  # the comma stands behind the quote which ends the text
        else:
            stretches.append((quotes, -1, front))  # the number reaches up to the comma before the key's quote
        fields.append(_Field(key, is_text, quotes + 1 + is_text))
        quotes += 4 if is_text else 2
        at = found.end()
    keys = {field.key for field in fields if "\N{REPLACEMENT CHARACTER}" not in field.key}
    if not fields or line[at:] != b"}\n" or len(keys) < len(fields):
        return None
    return _Shape(tuple(fields), tuple(stretches), quotes)


class _Found(msgspec.Struct):
    """Lines with as many quotes as a shape has, and where these are."""

    shape: _Shape
    text: Bytes
    begins: I64
    ends: I64
    quotes: I64  # [quote of the shape, line]

    @classmethod
    def of(cls, lines: Lines, shape: _Shape, is_taken: Mask) -> "_Found":
        """Lines with more quotes, or less, are marked as not taken."""
        quotes = np.flatnonzero(lines.content == ord('"'))
        begins, ends = lines.offsets[:-1], lines.offsets[1:]
        if not _are_even(quotes, lines, shape.quotes):
            counts = np.diff(np.searchsorted(quotes, lines.offsets))
            is_taken &= counts == shape.quotes
            quotes = quotes[np.repeat(is_taken, counts)]
            begins, ends = begins[is_taken], ends[is_taken]
        by_quote = np.ascontiguousarray(quotes.reshape(-1, shape.quotes).T)
        return cls(shape, lines.text, begins, ends, by_quote)

    def fitting(self, is_taken: Mask) -> "_Found":
        """The lines which are of the shape, but perhaps for their values; the others are marked as not taken."""
        fits = self._fits()
        if fits.all():
            return self
        is_taken[is_taken] = fits
        return _Found(self.shape, self.text, self.begins[fits], self.ends[fits], self.quotes[:, fits])

    def _fits(self) -> Mask:
        """Which lines have the constant bytes where they belong."""
        words: Any = np.ndarray((len(self.text) - PADDING + 1,), np.uint64, self.text.data, strides=(1,))
        fits = np.ones(len(self.begins), np.bool_)
        for quote, delta, front in self.shape.stretches:
            place = self.begins if quote < 0 else self.quotes[quote] + delta
            _compare(words, place, front, fits)
        last = self.shape.fields[-1]
        behind = self.quotes[last.quote + 1] + 1 if last.is_text else self.ends - 2
        _compare(words, behind, b"}\n", fits)
        fits &= behind == self.ends - 2
        return fits

    def texts(self, field: _Field) -> Any:
        """The values of a field as they stand there, texts without their quotes."""
        if field.is_text:
            return cut(pa.string(), self.text, self.quotes[field.quote] + 1, self.quotes[field.quote + 1])
        is_last = field is self.shape.fields[-1]
        begins = self.quotes[field.quote] + 2
        ends = self.ends - 2 if is_last else self.quotes[field.quote + 1] - 1
        return cut(pa.string(), self.text, begins, ends)


def cut(kind: Any, text: Any, begins: I64, ends: I64) -> Any:
    """Stretches of a text, which rise, as an Arrow array: every other value of one which has what lies between too."""
    count = len(begins)
    if not count:
        return pa.array([], kind)
    offsets = np.empty(2 * count, np.int32)
    offsets[::2], offsets[1::2] = begins, ends
    array = pa.Array.from_buffers(kind, 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    return array.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def _is_plain(kind: Any) -> bool:
    is_number = pa.types.is_signed_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    return bool(is_number or pa.types.is_string(kind) or pa.types.is_boolean(kind))


def _without_escapes(lines: Lines) -> Mask:
    """Which lines have neither a backslash nor a control character but the newline."""
    content = lines.content
    is_plain = np.ones(len(lines), np.bool_)
    is_control = content < 0x20
    if (content == ord("\\")).any() or np.count_nonzero(is_control) != len(lines):
        is_control[lines.offsets[1:] - 1] = False
        places = np.flatnonzero(is_control | (content == ord("\\")))
        is_plain[np.searchsorted(lines.offsets, places, side="right") - 1] = False
    return is_plain


def _are_even(quotes: I64, lines: Lines, count: int) -> bool:
    """Has every line so many quotes?"""
    if len(quotes) != count * len(lines):
        return False
    first, last = quotes[::count], quotes[count - 1 :: count]
    return bool((first >= lines.offsets[:-1]).all() and (last < lines.offsets[1:]).all())


def _compare(words: Any, places: I64, expected: bytes, fits: Mask) -> None:
    """Which lines have the expected bytes at their place: by words of 8, the last of which ends where they end."""
    size = len(expected)
    if size < 8:
        mask = np.uint64((1 << 8 * size) - 1)
        fits &= words[places] & mask == np.uint64(int.from_bytes(expected, "little"))
        return
    for at in [*range(0, size - 8, 8), size - 8]:
        fits &= words[places + at] == np.uint64(int.from_bytes(expected[at : at + 8], "little"))


def _are_numbers(texts: Any) -> Mask:
    """Which texts are numbers as JSON has them, without an exponent."""
    if not len(texts):
        return np.zeros(0, np.bool_)
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[: len(texts) + 1].astype(np.int64)
    begins, ends = offsets[:-1], offsets[1:]
    if (begins == ends).any():
        return np.zeros(len(texts), np.bool_)
    content = np.frombuffer(texts.buffers()[2], np.uint8)[: offsets[-1]]
    classes = _CLASSES[content]
    leads = begins + (classes[begins] == _MINUS)
    is_number: Mask = (leads < ends) & (classes[ends - 1] == _DIGIT)
    leads = np.minimum(leads, ends - 1)
    is_number &= classes[leads] == _DIGIT
    is_longer = (content[leads] == ord("0")) & (leads + 1 < ends)
    is_number &= ~is_longer | (classes[np.minimum(leads + 1, ends - 1)] == _DOT)
    signs = np.count_nonzero(classes[begins] == _MINUS)
    dots = np.flatnonzero(classes == _DOT)
    if np.count_nonzero(classes > _DOT) > signs:  # a sign may stand at the begin, and nowhere else
        classes[begins[classes[begins] == _MINUS]] = _DIGIT
        is_number &= np.maximum.reduceat(classes, begins) <= _DOT
    is_one_each = len(dots) == len(texts) and bool((dots > begins).all() and (dots < ends).all())
    if len(dots) and not is_one_each:
        is_number &= np.add.reduceat(classes == _DOT, begins, dtype=np.int32) <= 1
    return is_number
