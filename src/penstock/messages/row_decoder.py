"""Frames of many messages to rows of Arrow, all at once.

The input are `Piece`s: chunks of the journal, and the chosen frames of each. The output is one table, its rows in the
order of the pieces. A decoder decodes all or raises; a caller finds the bad frame by handing in fewer.
"""

from typing import Any, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Offset
from penstock.messages.columns import I64, U64, Chunk, Columns, csv_columns, fixed_columns, json_columns
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.csv_rows import CsvRows
from penstock.messages.framing.fixed import BODY_AT, Fixed
from penstock.messages.framing.json_lines import HEAD, JsonLines
from penstock.messages.json_shapes import META_BYTES, Lines, ShapeReader, cut

__all__ = ["FRONT_BYTES", "ArrowRows", "CsvTable", "JsonRows", "Piece", "RawRows", "RowDecoder", "front_of"]


FRONT_BYTES: Final = 64 << 10  # of a chunk, which are joined with the end of the one before
_UUID_COLUMN = "_uuid"  # of a record of CSV, which the schema does not name


def _word(text: bytes, at: int, size: int = 8) -> tuple[int, np.uint64, np.uint64]:
    """Return how to find bytes at a position: where a word of 8 bytes begins, which of its bits count, and
    their value.
    """
    shift = 8 * (8 - size)
    wanted = int.from_bytes(text[:size], "little")
    return at - (8 - size), np.uint64((1 << 8 * size) - 1 << shift), np.uint64(wanted << shift)


_HEAD_WORDS = (_word(HEAD, 0), _word(HEAD[8:], 8), _word(HEAD[10:], 10), _word(b'"},', META_BYTES - 3, 3))


class Piece(msgspec.Struct, frozen=True):
    """Frames of a chunk, in order. Offsets are relative to the chunk, which begins at `base` of the journal."""

    base: Offset
    data: Chunk
    begins: I64
    ends: I64
    clocks: U64

    def __len__(self) -> int:
        return len(self.begins)

    def pick(self, rows: Any) -> "Piece":
        return Piece(self.base, self.data, self.begins[rows], self.ends[rows], self.clocks[rows])


class RowDecoder(Protocol):
    """Finds messages in chunks, and rows in messages."""

    schema: Any

    def columns(self, data: Chunk) -> Columns: ...

    def decode(self, pieces: list[Piece]) -> Any:
        """A table of this schema. InvalidArgument if any frame is none."""
        ...


def front_of(
    decoder: RowDecoder, rest: bytes, data: Chunk, front_bytes: int = FRONT_BYTES
) -> tuple[bytes, Columns, Chunk] | None:
    """Return the frame that began in the chunk before, with some frames after it, and their columns; and the rest of
    the chunk.

    The rest of a large chunk stays where it is: to join all of it with a few bytes of the one before would cost more
    than to sequence it. None: the chunk is small, or something at its front is bad, and the whole chunk then reports
    it.
    """
    while front_bytes < len(data) // 2:
        front = rest + data[:front_bytes]
        columns = decoder.columns(front)
        if columns.bad:
            return None
        if columns.consumed:
            return front, columns, memoryview(data)[columns.consumed - len(rest) :]
        front_bytes *= 4
    return None


class JsonRows:
    """One JSON line is one row. Fields which the schema does not name are ignored, missing ones are null."""

    def __init__(self, schema: Any, *, use_threads: bool = True) -> None:
        self.schema = schema
        self._use_threads = use_threads
        self._framing = JsonLines()
        self._options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        self._shapes = ShapeReader(schema)

    def columns(self, data: Chunk) -> Columns:
        return json_columns(data, self._framing)

    def decode(self, pieces: list[Piece]) -> Any:
        lines = Lines([(piece.data, piece.begins, piece.ends) for piece in pieces])
        if not len(lines):
            return self.schema.empty_table()
        # a caller that asks for no column still gets a row for each line; joined tables lose them
        if not self.schema.names:
            return self._parsed(lines)
        parts, left = self._shapes.read(lines)  # lines of a few shapes are cut; Arrow reads the others
        if len(left):
            parts.append((left, self._parsed(lines.pick(left))))
        table = pa.concat_tables([table for _, table in parts])
        if len(parts) == 1:
            return table
        return table.take(pa.array(np.argsort(np.concatenate([rows for rows, _ in parts]))))

    def _parsed(self, lines: Lines) -> Any:
        content, longest = _bodies(lines)
        options = pj.ReadOptions(use_threads=self._use_threads, block_size=max(1 << 18, longest + 1))
        try:
            table = pj.read_json(pa.BufferReader(content), read_options=options, parse_options=self._options)
        except pa.ArrowException as error:
            raise InvalidArgument(f"not a JSON line of this schema: {error}") from None
        if table.num_rows != len(lines):
            raise InvalidArgument("not one JSON object to a line")
        return table.select(self.schema.names)


class ArrowRows:
    """One frame is a record batch; its columns are used where they lie."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._framing = ArrowBatches(schema)

    def columns(self, data: Chunk) -> Columns:
        return fixed_columns(data, self._framing)

    def decode(self, pieces: list[Piece]) -> Any:
        return pa.Table.from_batches([batch for piece in pieces for batch in self._batches(piece)], self.schema)

    def _batches(self, piece: Piece) -> list[Any]:
        found = self._framing.decode_all(piece.data, piece.begins, piece.ends)
        if found is not None:
            return found
        buffer = pa.py_buffer(piece.data)
        frames = zip(piece.begins.tolist(), piece.ends.tolist(), strict=True)
        return [self._framing.decode_at(buffer, begin, end) for begin, end in frames]


class CsvTable:
    """One record is one row: the UUID, then the columns of the schema in their order."""

    def __init__(self, schema: Any, *, with_uuid: bool = True) -> None:
        self.schema = schema
        self._framing = CsvRows(with_uuid=with_uuid)
        names = [_UUID_COLUMN, *schema.names] if with_uuid else schema.names
        self._read = pc.ReadOptions(use_threads=False, column_names=names)
        self._parse = pc.ParseOptions(newlines_in_values=True)
        self._convert = pc.ConvertOptions(
            column_types=schema,
            include_columns=schema.names,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )

    def columns(self, data: Chunk) -> Columns:
        return csv_columns(data, self._framing)

    def decode(self, pieces: list[Piece]) -> Any:
        records = b"".join([run for piece in pieces for run in _runs(piece.data, piece.begins, piece.ends)])
        if not records:
            return self.schema.empty_table()
        self._read.block_size = len(records) + 1
        try:
            table = pc.read_csv(
                pa.BufferReader(records),
                read_options=self._read,
                parse_options=self._parse,
                convert_options=self._convert,
            )
        except pa.ArrowException as error:
            raise InvalidArgument(f"not a record of this schema: {error}") from None
        if table.num_rows != sum(map(len, pieces)):
            raise InvalidArgument("not one record to a message")
        return table


class RawRows:
    """One frame is one row of bytes."""

    schema = pa.schema([("value", pa.binary())])

    def __init__(self) -> None:
        self._framing = Fixed()

    def columns(self, data: Chunk) -> Columns:
        return fixed_columns(data, self._framing)

    def decode(self, pieces: list[Piece]) -> Any:
        return pa.Table.from_batches([self._batch(piece) for piece in pieces if len(piece)], self.schema)

    def _batch(self, piece: Piece) -> Any:
        """Bodies side by side: where one begins a mark of +1, where it ends one of -1, and what lies within is kept.

        That is the chunk's order; frames may be given in another one, that of their commits.
        """
        if (piece.begins[1:] < piece.begins[:-1]).any():
            order = np.argsort(piece.begins)
            return self._batch(piece.pick(order)).take(pa.array(np.argsort(order)))
        begins, ends = piece.begins + BODY_AT, piece.ends
        marks = np.zeros(len(piece.data) + 1, np.int8)
        np.add.at(marks, begins, 1)
        np.add.at(marks, ends, -1)
        is_body = np.cumsum(marks[:-1], dtype=np.int8) > 0
        offsets = np.concatenate([[0], np.cumsum(ends - begins)]).astype(np.int32)
        bodies = np.frombuffer(piece.data, np.uint8)[is_body]
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(bodies)]
        return pa.record_batch([pa.Array.from_buffers(pa.binary(), len(piece), buffers)], schema=self.schema)


def _bodies(lines: Lines) -> tuple[Any, int]:
    """Return lines as one text, without `_meta` where it has our form; and a bound on the longest."""
    text = b"".join([run for part in lines.parts for run in _runs(*part)])
    sizes = np.concatenate([ends - begins for _, begins, ends in lines.parts])
    ends = np.cumsum(sizes)
    begins = ends - sizes
    is_ours = sizes > META_BYTES
    rows = np.flatnonzero(is_ours)
    if len(rows):
        words: Any = np.ndarray((len(text) - 7,), np.uint64, text, strides=(1,))
        for at, mask, expected in _HEAD_WORDS:
            is_ours[rows] &= words[begins[rows] + at] & mask == expected
    bodies = cut(pa.binary(), text, begins + np.where(is_ours, META_BYTES - 1, 0), ends)
    offsets = np.frombuffer(bodies.buffers()[1], np.int32)[: len(bodies) + 1]
    content = np.frombuffer(bodies.buffers()[2], np.uint8)[: offsets[-1]].copy()
    content[offsets[:-1][is_ours]] = ord("{")  # where the comma behind `_meta` was
    return content, int(sizes.max())


def _runs(data: Chunk, begins: I64, ends: I64) -> list[memoryview]:
    """Stretches of the chunk in which one frame follows the other."""
    if not len(begins):
        return []
    cuts = np.flatnonzero(begins[1:] != ends[:-1])
    firsts = begins[np.concatenate([[0], cuts + 1])].tolist()
    lasts = ends[np.append(cuts, len(ends) - 1)].tolist()
    view = memoryview(data)
    return [view[begin:end] for begin, end in zip(firsts, lasts, strict=True)]
