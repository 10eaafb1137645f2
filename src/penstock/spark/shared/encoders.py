"""Rows to messages, for the sink: whole Arrow batches to frames, with the UUIDs of one producer.

JSON and CSV: one message is one row. Raw: one message is the bytes of the column `value`. Arrow: one message is one
batch. What a framing cannot hold is refused before anything is written.
"""

from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Clock
from penstock.messages.clock import TICK, updated
from penstock.messages.columns import U64
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.csv_rows import CsvRows
from penstock.messages.framing.fixed import Fixed
from penstock.messages.framing.framing import Framing as MessageFraming
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.uuid import ACK_TXN, CONTINUE_TXN, ProducerId, Uuid
from penstock.spark.options import Framing
from penstock.spark.shared.rows import string_array, uuid_texts

__all__ = ["Encoder", "Producer", "encoder_of", "plain_schema"]

META: Final = "_meta"


class Producer:
    """One attempt of one task: its messages are pending until the driver's commit acknowledges them."""

    def __init__(self, producer: ProducerId, unix_ns: int) -> None:
        self.id = producer
        self._clock = updated(Clock(0), unix_ns)

    def clocks(self, count: int) -> U64:
        """The next clocks."""
        found = np.uint64(self._clock) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(TICK)
        self._clock = Clock(self._clock + count * TICK)
        return found

    def uuid(self, flags: int) -> Uuid:
        return Uuid(self.id, Clock(int(self.clocks(1)[0])), flags)

    def texts(self, count: int) -> Any:
        """UUIDs of pending messages, as an Arrow array."""
        return string_array(uuid_texts(self.id, self.clocks(count), CONTINUE_TXN))


class Encoder(Protocol):
    """Makes frames of rows."""

    @property
    def framing(self) -> MessageFraming: ...

    def encode(self, batch: Any, producer: Producer) -> bytes: ...


def encoder_of(framing: Framing, schema: Any) -> Encoder:
    """The encoder of a framing, for rows of a plain schema."""
    match framing:
        case "json":
            return JsonEncoder(schema)
        case "csv":
            return CsvEncoder(schema)
        case "raw":
            return RawEncoder(schema)
        case "arrow":
            return ArrowEncoder(schema)


def acknowledgement(encoder: Encoder, producer: Producer) -> bytes:
    return encoder.framing.acknowledgement(producer.uuid(ACK_TXN))


class JsonEncoder:
    """Lines as `JsonLines` writes them, the UUID first."""

    framing = JsonLines()

    def __init__(self, schema: Any) -> None:
        if META in schema.names:
            raise InvalidArgument(f"a column {META}: in JSON messages that key is ours")
        for field in schema:
            _refuse_binary(field.name, field.type, "json")
        self._has_columns = bool(schema.names)

    def encode(self, batch: Any, producer: Producer) -> bytes:
        import polars as pl  # in tasks only: planners need not wait for it

        uuids = pl.Series(_VIEW, producer.texts(batch.num_rows))
        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        body = frame.to_struct().struct.json_encode().str.slice(1)
        lines = pl.select(
            pl.concat_str([pl.lit('{"_meta":{"uuid":"'), uuids, pl.lit('"},'), body, pl.lit("\n")]).alias("lines")
        )
        return _joined(lines["lines"].to_arrow())


class CsvEncoder:
    """Records as `CsvRows` writes them, the UUID first."""

    framing = CsvRows()

    def __init__(self, schema: Any) -> None:
        for field in schema:
            _refuse_binary(field.name, field.type, "csv")
            if pa.types.is_nested(field.type):
                raise InvalidArgument(f"framing csv cannot hold column {field.name} of {field.type}")

    def encode(self, batch: Any, producer: Producer) -> bytes:
        import polars as pl

        frame = pl.from_arrow(batch)
        assert isinstance(frame, pl.DataFrame)
        frame.insert_column(0, pl.Series(_VIEW, producer.texts(batch.num_rows)))
        return frame.write_csv(include_header=False, line_terminator="\r\n", quote_style="necessary").encode()


class RawEncoder:
    """The bytes of one column."""

    framing = Fixed()

    def __init__(self, schema: Any) -> None:
        if schema.names != ["value"] or not (
            pa.types.is_binary(schema.field(0).type) or pa.types.is_string(schema.field(0).type)
        ):
            raise InvalidArgument(f"framing raw wants one column, value, of bytes or text; there is {schema.names}")

    def encode(self, batch: Any, producer: Producer) -> bytes:
        values = batch.column(0).cast(pa.binary())
        if values.null_count:
            raise InvalidArgument("framing raw: a value is null")
        clocks = producer.clocks(len(values)).tolist()
        pairs = zip(values.to_pylist(), clocks, strict=True)
        return b"".join(
            [self.framing.encode(value, Uuid(producer.id, Clock(clock), CONTINUE_TXN)) for value, clock in pairs]
        )


class ArrowEncoder:
    """Batches as they are."""

    def __init__(self, schema: Any) -> None:
        self.framing = ArrowBatches(schema)

    def encode(self, batch: Any, producer: Producer) -> bytes:
        return self.framing.encode(batch, producer.uuid(CONTINUE_TXN))


def plain_schema(schema: Any) -> Any:
    """Return Spark's schema without its metadata; everything nullable, times in UTC: equal data, equal schemas."""
    return pa.schema([(field.name, _plain(field.type)) for field in schema])


def _plain(kind: Any) -> Any:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp("us", "UTC")
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    return kind


def _refuse_binary(name: str, kind: Any, framing: str) -> None:
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise InvalidArgument(f"framing {framing} cannot hold bytes (column {name}): use base64(), or framing arrow")
    if pa.types.is_map(kind):
        raise InvalidArgument(f"framing {framing} cannot hold a map (column {name}): use a struct, or framing arrow")
    for number in range(kind.num_fields):
        _refuse_binary(name, kind.field(number).type, framing)


_VIEW = "_uuid"  # the name of the UUIDs' column; it is not written


def _joined(lines: Any) -> bytes:
    """Return all strings of a column, one after the other."""
    found = lines.cast(pa.large_string())
    offsets = np.frombuffer(found.buffers()[1], np.int64)[found.offset : found.offset + len(found) + 1]
    return bytes(memoryview(found.buffers()[2])[int(offsets[0]) : int(offsets[-1])])
