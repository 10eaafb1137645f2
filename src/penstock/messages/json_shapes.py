"""JSON lines to columns by their shape: lines with the same keys in the same order are cut in one pass, not parsed.

What a program writes looks alike, line after line: `{"account":"…","amount":…}`. The first line says which keys to
expect, and a compiled loop (`json_kernels.py`) reads all lines: it compares the keys, eight bytes at a time, and puts
the values between them into columns. Then the next shape, if there is one. Texts with escapes, nested values, blanks
between keys and values: all that fits no shape.

What always holds: a line is taken only if it is JSON, and its row is what Arrow's JSON reader would make of it. All
others are left, and Arrow reads them. Tests hold one against the other.
"""

import re
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.messages.columns import I64, Chunk
from penstock.messages.framing import json_kernels as kernels
from penstock.messages.framing.compiled import IS_COMPILED, address
from penstock.messages.framing.json_lines import HEAD, UUID_AT
from penstock.messages.uuid import TEXT_BYTES

__all__ = ["META_BYTES", "Lines", "ShapeReader", "cut"]

META_BYTES: Final = UUID_AT + TEXT_BYTES + 3  # of `_meta`, from the first of the line to the comma that ends it
SHAPES_MAX: Final = 4  # of which lines are cut; lines of a fifth one are left
TEXTS_MAX: Final = 2**31 - 1  # bytes of a column, which Arrow counts by 32 bits

_FIELD: Final = re.compile(rb'"([^"\\]*)":("[^"\\]*"|[^"\\{}\[\],]+)([,}])')

Mask = npt.NDArray[np.bool_]


class Lines:
    """Lines of some chunks, each with its newline: where they begin and end in their chunk."""

    def __init__(self, parts: list[tuple[Chunk, I64, I64]]) -> None:
        self.parts = parts
        self.firsts = np.cumsum([0, *(len(begins) for _, begins, _ in parts)])  # the number of each chunk's first line

    def __len__(self) -> int:
        return int(self.firsts[-1])

    @property
    def size(self) -> int:
        """Bytes of all."""
        return sum(int((ends - begins).sum()) for _, begins, ends in self.parts)

    def first(self) -> bytes:
        data, begins, ends = next(part for part in self.parts if len(part[1]))
        return bytes(data[int(begins[0]) : int(ends[0])])

    def pick(self, rows: I64) -> "Lines":
        """Some of the lines, in their order."""
        if len(rows) == len(self):
            return self
        cuts = np.searchsorted(rows, self.firsts)
        picks = [rows[cut:end] - first for cut, end, first in zip(cuts[:-1], cuts[1:], self.firsts[:-1], strict=True)]
        return Lines([(part[0], part[1][pick], part[2][pick]) for part, pick in zip(self.parts, picks, strict=True)])


class ShapeReader:
    """Cuts lines into columns of a schema. Fields which it does not name are ignored, missing ones are null."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        kinds = [_kind_of(field.type) for field in schema]
        self.is_able = bool(kinds) and None not in kinds and IS_COMPILED
        self._kinds = {field.name: kind for field, kind in zip(schema, kinds, strict=True) if kind is not None}
        self._places = {name: place for place, name in enumerate(schema.names)}

    def read(self, lines: Lines) -> tuple[list[tuple[I64, Any]], I64]:
        """Tables, each with the numbers of the lines which became its rows; and the numbers of the lines left."""
        rest = np.arange(len(lines))
        if not self.is_able or lines.size > TEXTS_MAX:
            return [], rest
        taken: list[tuple[I64, Any]] = []
        left: list[I64] = []
        for _ in range(SHAPES_MAX):
            if not len(rest):
                break
            wanted = lines.pick(rest)
            shape = self._shape_of(wanted.first())
            is_taken = np.zeros(len(rest), np.bool_)
            table = None if shape is None else self._cut(wanted, shape, is_taken)
            if table is None:
                left.append(rest[:1])
                rest = rest[1:]
                continue
            taken.append((rest[is_taken], table))
            rest = rest[~is_taken]
        return taken, np.sort(np.concatenate([rest, *left]))

    def _shape_of(self, line: bytes) -> "_Shape | None":
        """The shape of a line; None if it has values which are neither texts nor numbers nor words."""
        has_meta = line.startswith(HEAD) and line[META_BYTES - 3 : META_BYTES] == b'"},'
        at, keys, behind = META_BYTES if has_meta else 1, list[bytes](), b","
        while behind == b"," and (found := _FIELD.match(line, at)) is not None:
            keys.append(found[1])
            at, behind = found.end(), found[3]
        names = [key.decode(errors="replace") for key in keys]
        is_plain = "\N{REPLACEMENT CHARACTER}" not in "".join(names) and len(set(names)) == len(names)
        if behind != b"}" or line[at:] != b"\n" or not is_plain:
            return None
        texts = np.frombuffer(b"".join([b'"%b":' % key for key in keys]) + bytes(8), np.uint8)
        ends = np.cumsum([len(key) + 3 for key in keys])
        kinds = np.array([self._kinds.get(name, kernels.SKIP) for name in names])
        places = np.array([self._places.get(name, -1) for name in names])
        return _Shape(texts, ends, kinds, places)

    def _cut(self, lines: Lines, shape: "_Shape", is_taken: Mask) -> Any:
        """The lines of a shape, as a table; None if there are none, or values are not of their column's type."""
        found = _Columns(len(lines), lines.size, [self._kinds[name] for name in self.schema.names])
        try:
            for first, part in zip(lines.firsts[:-1].tolist(), lines.parts, strict=True):
                found.cut(*part, shape, is_taken[first : first + len(part[1])])
            arrays = [
                found.array(place, field.type) if place in shape.places else pa.nulls(found.rows, field.type)
                for place, field in enumerate(self.schema)
            ]
        except pa.ArrowInvalid:  # a value is none of its column's type: who reads the line one by one will say which
            return None
        return pa.Table.from_arrays(arrays, schema=self.schema) if found.rows else None


class _Shape(NamedTuple):
    """What lines have in common; see `json_kernels.cut_lines`."""

    keys: Any
    key_ends: I64
    kinds: I64
    places: I64


class _Columns:
    """The columns, as lines become their rows: an array for each of what a column of any kind may need."""

    def __init__(self, rows_max: int, text_bytes: int, kinds: list[int]) -> None:
        self.rows = 0
        self._kinds = kinds
        shape = len(kinds), rows_max
        self._is_there = np.empty(shape, np.bool_)
        self._numbers = np.empty(shape, np.int64)  # or the position of a number that is read later
        self._floats = self._numbers.view(np.float64)
        self._lengths = np.empty(shape, np.int32)  # of numbers which are read later; 0: it is read
        self._offsets = np.empty((len(kinds), rows_max + 1), np.int64)
        room = text_bytes + kernels.TEXT_PADDING
        begins = np.cumsum([0, *(room if kind == kernels.TEXT else 0 for kind in kinds)])
        self._texts = np.empty(begins[-1], np.uint8)
        self._offsets[:, 0] = begins[:-1]
        self._text_ends = begins[:-1].copy()

    def cut(self, data: Chunk, begins: I64, ends: I64, shape: _Shape, is_taken: Mask) -> None:
        """Cut some lines of a chunk."""
        meta = address(HEAD), len(HEAD), META_BYTES
        parts = address(shape.keys), shape.key_ends, shape.kinds, shape.places
        texts = address(self._texts)
        columns = (
            self._is_there, self._numbers, self._lengths, self._offsets, texts, self._text_ends
        )  # fmt: skip
        first, place = self.rows, address(data)
        self.rows = kernels.cut_lines(place, len(data), begins, ends, is_taken, meta, parts, columns, first)
        for place in shape.places.tolist():
            if place >= 0 and self._kinds[place] in (kernels.FLOAT, kernels.LATER):
                self._read_later(data, place, slice(first, self.rows))

    def _read_later(self, data: Chunk, place: int, rows: slice) -> None:
        """Numbers of which a float64 does not have all digits are read by Arrow, which rounds them as it should."""
        later = np.flatnonzero(self._lengths[place, rows])
        if len(later):
            begins = self._numbers[place, rows][later]
            texts = cut(pa.string(), data, begins, begins + self._lengths[place, rows][later])
            numbers = texts.cast(pa.float32() if self._kinds[place] == kernels.LATER else pa.float64()).to_numpy()
            if np.isinf(numbers).any() and np.isinf(texts.cast(pa.float64()).to_numpy()).any():
                raise pa.ArrowInvalid("too large for a float64, which Arrow's JSON reader refuses")
            self._floats[place, rows][later] = numbers

    def array(self, place: int, kind: Any) -> Any:
        """A column of the lines so far."""
        is_there = self._is_there[place, : self.rows]
        mask = None if is_there.all() else ~is_there
        if self._kinds[place] == kernels.TEXT:
            offsets = self._offsets[place, : self.rows + 1]
            texts = self._texts[offsets[0] : offsets[-1]]
            places = (offsets - offsets[0]).astype(np.int32)
            present = None if mask is None else pa.array(is_there).buffers()[1]
            return pa.Array.from_buffers(kind, self.rows, [present, pa.py_buffer(places), pa.py_buffer(texts)])
        numbers = self._numbers[place, : self.rows]
        if self._kinds[place] == kernels.BOOL:
            return pa.array(numbers != 0, kind, mask=mask)
        if self._kinds[place] != kernels.INT:
            return pa.array(self._floats[place, : self.rows], pa.float64(), mask=mask).cast(kind)
        return pa.array(numbers, pa.int64(), mask=mask).cast(kind)


def cut(kind: Any, text: Any, begins: I64, ends: I64) -> Any:
    """Return rising stretches of a text as an Arrow array: every other value of an array that also has the text in
    between.
    """
    count = len(begins)
    if not count:
        return pa.array([], kind)
    offsets = np.empty(2 * count, np.int32)
    offsets[::2], offsets[1::2] = begins, ends
    array = pa.Array.from_buffers(kind, 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
    return array.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def _kind_of(kind: Any) -> int | None:
    """Return the kind that the kernel reads a type's values as; None: Arrow reads them."""
    if pa.types.is_string(kind):
        return kernels.TEXT
    if pa.types.is_signed_integer(kind):
        return kernels.INT
    if pa.types.is_float64(kind):
        return kernels.FLOAT
    if pa.types.is_float32(kind):
        return kernels.LATER  # to round a float64 a second time could give another number
    return kernels.BOOL if pa.types.is_boolean(kind) else None
