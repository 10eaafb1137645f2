"""Rows to messages: what the plain framings and the vectorised decoders read back."""

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Offset
from penstock.messages.columns import csv_columns, json_columns
from penstock.messages.framing.csv_rows import CsvRows
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.row_decoder import Piece
from penstock.messages.uuid import CONTINUE_TXN, producer_id
from penstock.spark.options import Framing
from penstock.spark.shared.encoders import Producer, acknowledgement, encoder_of, plain_schema
from penstock.spark.shared.rows import decoder_of

NOON = 1_763_208_000_000_000_000
ROWS = pa.RecordBatch.from_pydict(
    {
        "n": pa.array([1, None, 3], pa.int64()),
        "text": pa.array(['quoted "é"\n, so', "", None], pa.string()),
        "price": pa.array([decimal.Decimal("1.20"), decimal.Decimal("-0.01"), None], pa.decimal128(10, 2)),
        "at": pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.UTC)] * 3, pa.timestamp("us", "UTC")),
        "day": pa.array([datetime.date(2026, 1, 2)] * 3, pa.date32()),
        "is_good": pa.array([True, False, None], pa.bool_()),
    }
)
BYTES = pa.RecordBatch.from_pydict({"value": pa.array([b"\0one", b""], pa.binary())})


@pytest.mark.parametrize(("framing", "rows"), [("json", ROWS), ("csv", ROWS), ("arrow", ROWS), ("raw", BYTES)])
def test_what_is_encoded_is_decoded_again(framing: Framing, rows: Any) -> None:
    encoder = encoder_of(framing, plain_schema(rows.schema))
    producer = Producer(producer_id(7), NOON)
    data = encoder.encode(rows, producer) + acknowledgement(encoder, producer)
    decoder = decoder_of(framing, rows.schema, use_threads=False)
    columns = decoder.columns(data)
    assert columns.consumed == len(data)
    assert columns.flags.tolist() == [CONTINUE_TXN] * (len(columns) - 1) + [2]
    assert set(columns.producers.tolist()) == {producer.id}
    clocks = columns.clocks.tolist()
    assert clocks == sorted(set(clocks))
    piece = Piece(Offset(0), data, columns.begins[:-1], columns.ends[:-1], columns.clocks[:-1])
    found = decoder.decode([piece]).cast(rows.schema)
    assert found.to_pylist() == rows.to_pylist()


def test_frames_are_those_of_the_plain_framings() -> None:
    plains: dict[Framing, JsonLines | CsvRows] = {"json": JsonLines(), "csv": CsvRows()}
    for framing, plain in plains.items():
        data = encoder_of(framing, ROWS.schema).encode(ROWS, Producer(producer_id(7), NOON))
        split = plain.split(data)
        uuids = [plain.uuid(frame) for frame in split.frames]
        assert [uuid and uuid.producer for uuid in uuids] == [producer_id(7)] * 3
        columns = json_columns(data, plain) if isinstance(plain, JsonLines) else csv_columns(data, plain)
        assert columns.clocks.tolist() == [uuid and uuid.clock for uuid in uuids]
        assert columns.ends.tolist() == split.ends


def test_what_a_framing_cannot_hold_is_refused() -> None:
    wrong: dict[Framing, Any] = {
        "json": pa.schema([("nested", pa.struct([("bytes", pa.binary())]))]),
        "csv": pa.schema([("list", pa.list_(pa.int64()))]),
        "raw": pa.schema([("n", pa.int64())]),
    }
    for framing, schema in wrong.items():
        with pytest.raises(InvalidArgument):
            encoder_of(framing, schema)
    with pytest.raises(InvalidArgument, match="that key is ours"):
        encoder_of("json", pa.schema([("_meta", pa.string())]))
