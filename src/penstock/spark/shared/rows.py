"""Messages to rows as Spark wants them: the exact Arrow schema, columns about the messages, and a window of time.

A DataFrame's columns come from the messages, but for four which tell about them, wherever the schema names them:

    _journal     which journal              _uuid        the message's UUID; null if it has none
    _offset      where the message begins   _published   when it was published; null without a UUID

Everything is done for many messages at once; no row becomes a Python object.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Clock
from penstock.messages.clock import from_unix_ns, to_unix_ns
from penstock.messages.columns import I64, U64, Chunk, Columns, fixed_columns, gather
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.fixed import BODY_AT, HEAD_BYTES, Fixed
from penstock.messages.framing.json_lines import HEAD, JsonLines
from penstock.messages.row_decoder import CsvTable, JsonRows, Piece, RawRows, RowDecoder
from penstock.messages.uuid import ACK_TXN, TEXT_BYTES, UUID_BYTES
from penstock.spark.options import Framing

__all__ = ["METADATA", "SparkRows", "Untracked", "decoder_of", "string_array", "uuid_texts"]

METADATA: Final = pa.schema(
    [
        ("_journal", pa.string()),
        ("_offset", pa.int64()),
        ("_uuid", pa.string()),
        ("_published", pa.timestamp("us", "UTC")),
    ]
)
SCHEMAS_MAX: Final = 64  # which a journal's messages may have before some are parsed again and again
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_DIGITS: Final = np.array([at for at in range(TEXT_BYTES) if at not in (8, 13, 18, 23)])
_EPOCH_CLOCK: Final = int(from_unix_ns(0))


class SparkRows:
    """A RowDecoder whose tables have exactly the wanted schema."""

    def __init__(
        self,
        inner: RowDecoder,
        framing: Framing,
        journal: str,
        schema: Any,
        *,
        since_ns: int | None = None,
        before_ns: int | None = None,
    ) -> None:
        self.schema = schema
        self._inner = inner
        self._framing = framing
        self._journal = journal
        self._since = None if since_ns is None else int(from_unix_ns(since_ns))
        self._before = None if before_ns is None else int(from_unix_ns(before_ns))
        self._metadata = [name for name in METADATA.names if name in schema.names]

    def columns(self, data: Chunk) -> Columns:
        return self._inner.columns(data)

    def decode(self, pieces: list[Piece]) -> Any:
        pieces = [self._in_time(piece) for piece in pieces] if self._since or self._before else pieces
        table = self._inner.decode(pieces)
        if self._metadata:
            counts = self._counts(table, pieces)
            for name in self._metadata:
                table = table.append_column(METADATA.field(name), self._about(name, pieces, counts, table.num_rows))
        try:
            return table.select(self.schema.names).cast(self.schema)
        except pa.ArrowException as error:
            raise InvalidArgument(f"not of the DataFrame's schema: {error}") from None

    def _in_time(self, piece: Piece) -> Piece:
        """The messages of the window. One without a clock is in none."""
        since = self._since if self._since is not None else 1
        before = self._before if self._before is not None else np.iinfo(np.uint64).max
        return piece.pick((piece.clocks >= np.uint64(since)) & (piece.clocks < np.uint64(before)))

    def _counts(self, table: Any, pieces: list[Piece]) -> I64 | None:
        """Rows of each message; None: one each."""
        if self._framing != "arrow":
            return None
        counts = np.array([len(chunk) for chunk in table.column(0).chunks], np.int64)
        assert len(counts) == sum(map(len, pieces)), "a batch was lost on the way"
        return counts

    def _about(self, name: str, pieces: list[Piece], counts: I64 | None, rows: int) -> Any:
        match name:
            case "_journal":
                return pa.repeat(pa.scalar(self._journal), rows)
            case "_offset":
                found = pa.array(_joined([piece.begins + int(piece.base) for piece in pieces], np.int64))
            case "_published":
                found = _published(_joined([piece.clocks for piece in pieces], np.uint64))
            case _:
                found = pa.chunked_array([self._uuids(piece) for piece in pieces], pa.string()).combine_chunks()
        return found if counts is None else found.take(pa.array(np.repeat(np.arange(len(counts)), counts)))

    def _uuids(self, piece: Piece) -> Any:
        if not len(piece):
            return pa.array([], pa.string())
        if self._framing in ("raw", "arrow"):
            return _texts(hex_texts(gather(piece.data, piece.begins + HEAD_BYTES, UUID_BYTES)), piece.clocks)
        if self._framing == "csv":
            _, texts = uuid_fronts(piece, b"")
            return pa.nulls(len(piece), pa.string()) if texts is None else _texts(texts, piece.clocks)
        is_ours, texts = uuid_fronts(piece, HEAD)
        if texts is not None and is_ours.all():
            return _texts(texts, piece.clocks)
        found = _texts(texts, piece.clocks).to_pylist() if texts is not None else [None] * len(piece)
        for row in np.flatnonzero(~is_ours).tolist():  # which other programs wrote, with `_meta` elsewhere
            found[row] = self._slow_uuid(piece, row)
        return pa.array(found, pa.string())

    def _slow_uuid(self, piece: Piece, row: int) -> str | None:
        uuid = JsonLines().uuid(bytes(piece.data[int(piece.begins[row]) : int(piece.ends[row]) - 1]))
        return None if uuid is None else uuid.text


def decoder_of(framing: Framing, schema: Any, *, use_threads: bool) -> RowDecoder:
    """The decoder of what messages say: the wanted columns, in types which the framing can hold."""
    said = pa.schema([field for field in schema if field.name not in METADATA.names])
    match framing:
        case "json":
            return JsonRows(pa.schema([(each.name, _json_type(each.type)) for each in said]), use_threads=use_threads)
        case "csv":
            return CsvTable(said)
        case "raw":
            if said.names not in ([], ["value"]):
                raise InvalidArgument(f"framing raw has one column, value; the schema has {', '.join(said.names)}")
            return RawRows()
        case "arrow":
            if not said.names:
                raise InvalidArgument("framing arrow: the schema needs a column of the messages, not only about them")
            return OwnSchemaRows(said)


class OwnSchemaRows:
    """Arrow frames, each of its own schema: columns are found by name and cast; a column that a frame lacks is null."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._fixed = Fixed()
        self._framings: dict[bytes, ArrowBatches] = {}

    def columns(self, data: Chunk) -> Columns:
        return fixed_columns(data, self._fixed)

    def decode(self, pieces: list[Piece]) -> Any:
        return pa.Table.from_batches([batch for piece in pieces for batch in self._batches(piece)], self.schema)

    def _batches(self, piece: Piece) -> list[Any]:
        buffer = pa.py_buffer(piece.data)
        full = np.flatnonzero(piece.ends - piece.begins > BODY_AT)
        if len(full):
            framing = self._framing(_body(buffer, int(piece.begins[full[0]]), int(piece.ends[full[0]])))
            found = framing.decode_all(piece.data, piece.begins, piece.ends)
            if found is not None:
                return found if framing.schema.equals(self.schema) else [self._fitted(batch) for batch in found]
        frames = zip(piece.begins.tolist(), piece.ends.tolist(), strict=True)
        return [self._batch(buffer, begin, end) for begin, end in frames]

    def _batch(self, buffer: Any, begin: int, end: int) -> Any:
        body = _body(buffer, begin, end)
        return self._nothing if body.size == 0 else self._fitted(self._framing(body).decode_at(buffer, begin, end))

    def _fitted(self, batch: Any) -> Any:
        if batch.schema.equals(self.schema):
            return batch
        try:
            columns = [self._column(batch, field) for field in self.schema]
        except pa.ArrowException as error:
            raise InvalidArgument(f"a record batch of another schema: {error}") from None
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @property
    def _nothing(self) -> Any:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self.schema], schema=self.schema)

    def _column(self, batch: Any, field: Any) -> Any:
        if field.name not in batch.schema.names:
            return pa.nulls(batch.num_rows, field.type)
        column = batch.column(field.name)
        return column if column.type.equals(field.type) else column.cast(field.type)

    def _framing(self, body: Any) -> ArrowBatches:
        """The framing of the schema with which a body begins."""
        length = 8 + int.from_bytes(body.slice(4, 4).to_pybytes(), "little") if body.size >= 8 else body.size + 1
        if not 8 < length <= body.size:
            raise InvalidArgument("the body is no Arrow IPC stream")
        head = body.slice(0, length).to_pybytes()
        framing = self._framings.get(head)
        if framing is None:
            try:
                framing = ArrowBatches(pa.ipc.read_schema(pa.py_buffer(head)), head)
            except (pa.ArrowException, OSError) as error:
                raise InvalidArgument(f"the body is no Arrow IPC stream: {error}") from None
            if len(self._framings) < SCHEMAS_MAX:
                self._framings[head] = framing
        return framing


class Untracked:
    """A decoder for uncommitted reading: messages count at once, whatever their transaction says."""

    def __init__(self, inner: RowDecoder) -> None:
        self.schema = inner.schema
        self._inner = inner

    def columns(self, data: Chunk) -> Columns:
        found = self._inner.columns(data)
        kept = (found.flags != ACK_TXN) | (found.clocks == 0)
        zeros = np.zeros(int(kept.sum()), np.uint64)
        return Columns(found.begins[kept], found.ends[kept], zeros, zeros, zeros, found.bad, found.consumed)

    def decode(self, pieces: list[Piece]) -> Any:
        return self._inner.decode([self._with_clocks(piece) for piece in pieces])

    def _with_clocks(self, piece: Piece) -> Piece:
        found = self._inner.columns(piece.data)
        clocks = found.clocks[np.searchsorted(found.begins, piece.begins)]
        return Piece(piece.base, piece.data, piece.begins, piece.ends, clocks)


def _body(buffer: Any, begin: int, end: int) -> Any:
    return buffer.slice(begin + BODY_AT, end - begin - BODY_AT)


def _json_type(kind: Any) -> Any:
    """The type as which Arrow reads it from JSON; a cast does the rest."""
    if pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_json_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _json_type(field.type)) for field in kind])
    if pa.types.is_map(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        raise InvalidArgument(f"framing json cannot hold a column of {kind}; read it as a struct, string or number")
    return kind


def _joined(arrays: list[Any], kind: Any) -> Any:
    return np.concatenate([np.zeros(0, kind), *arrays]).astype(kind)


def _published(clocks: U64) -> Any:
    micros = (clocks >> np.uint64(4)).astype(np.int64) // 10 - (_EPOCH_CLOCK >> 4) // 10
    assert to_unix_ns(Clock(_EPOCH_CLOCK)) == 0
    return pa.array(micros, pa.timestamp("us", "UTC"), mask=clocks == 0)


# UUIDs as text


def hex_texts(packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The texts of packed UUIDs, 36 bytes each."""
    nibbles = np.empty((len(packed), 2 * UUID_BYTES), np.uint8)
    nibbles[:, ::2], nibbles[:, 1::2] = packed >> 4, packed & 0xF
    texts = np.full((len(packed), TEXT_BYTES), ord("-"), np.uint8)
    texts[:, _DIGITS] = _HEX[nibbles]
    return texts


def uuid_fronts(piece: Piece, head: bytes) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint8] | None]:
    """Return which messages begin with `head`, and the 36 bytes after it; None if the chunk is shorter than that."""
    size = len(head) + TEXT_BYTES
    if len(piece.data) < size:
        return np.zeros(len(piece), np.bool_), None
    is_long = piece.begins + size <= len(piece.data)
    front = gather(piece.data, np.where(is_long, piece.begins, 0), size)
    is_ours = is_long & (front[:, : len(head)] == np.frombuffer(head, np.uint8)).all(axis=1)
    return is_ours, np.ascontiguousarray(front[:, len(head) :])


def uuid_texts(producer: int, clocks: U64, flags: int) -> npt.NDArray[np.uint8]:
    """The texts of one producer's UUIDs. See `messages/uuid.py` for the bits."""
    time = clocks >> np.uint64(4)
    high = (time & 0xFFFFFFFF) << np.uint64(32) | (time >> 32 & 0xFFFF) << np.uint64(16) | 0x1000 | time >> 48
    low = 0x8000 << 48 | (clocks & 0xF) << np.uint64(58) | flags << 48 | producer
    words = np.stack([high.astype(np.uint64), low.astype(np.uint64)], axis=1).astype(">u8")
    return hex_texts(words.view(np.uint8).reshape(-1, UUID_BYTES))


def string_array(texts: npt.NDArray[np.uint8]) -> Any:
    """Texts of equal length as an Arrow array, without a copy."""
    count, length = texts.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(length)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(texts)))


def _texts(texts: npt.NDArray[np.uint8], clocks: U64) -> Any:
    found = string_array(texts)
    return found if (clocks != 0).all() else pa.compute.if_else(pa.array(clocks != 0), found, None)
