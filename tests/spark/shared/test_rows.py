"""Messages to rows as Spark wants them: columns about messages, windows of time, frames of any schema."""

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Clock, Offset
from penstock.messages.clock import from_unix_ns
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.fixed import Fixed
from penstock.messages.framing.framing import Framing as MessageFraming
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.row_decoder import Piece
from penstock.messages.uuid import ACK_TXN, CONTINUE_TXN, Uuid, producer_id
from penstock.spark.options import Framing
from penstock.spark.shared.rows import METADATA, SparkRows, Untracked, decoder_of, string_array, uuid_texts

NOON_NS = 1_763_208_000_000_000_000
BASE = Offset(1_000)
NUMBER = pa.schema([("n", pa.int64())])


def uuid_at(second: int, flags: int = CONTINUE_TXN) -> Uuid:
    return Uuid(producer_id(7), Clock(from_unix_ns(NOON_NS + second * 1_000_000_000)), flags)


def rows_of(framing: Framing, schema: Any, data: bytes, **window: int) -> list[dict[str, Any]]:
    decoder = SparkRows(decoder_of(framing, schema, use_threads=False), framing, "shop/orders", schema, **window)
    found = decoder.columns(data)
    table = decoder.decode([Piece(BASE, data, found.begins, found.ends, found.clocks)])
    assert table.schema == schema
    return list(table.to_pylist())


@pytest.mark.parametrize("framing", ["json", "raw", "arrow"])
def test_columns_about_messages(framing: Framing) -> None:
    kinds: dict[str, tuple[MessageFraming, Any]] = {
        "json": (JsonLines(), {"n": 1}),
        "raw": (Fixed(), b"body"),
        "arrow": (ArrowBatches(NUMBER), pa.record_batch({"n": [1, 2]}, schema=NUMBER)),
    }
    encoder, value = kinds[framing]
    first = encoder.encode(value, uuid_at(0))
    schema = pa.schema([*METADATA, *NUMBER]) if framing == "arrow" else METADATA
    rows = rows_of(framing, schema, first + encoder.encode(value, None))
    each = len(rows) // 2  # a record batch is one message, and two rows
    assert each == (2 if framing == "arrow" else 1)
    rows = [{name: row[name] for name in METADATA.names} for row in rows]
    moment = datetime.fromtimestamp(NOON_NS // 1_000_000_000, UTC)
    told = {"_journal": "shop/orders", "_offset": BASE, "_uuid": uuid_at(0).text, "_published": moment}
    untold = {"_journal": "shop/orders", "_offset": BASE + len(first), "_uuid": None, "_published": None}
    assert rows == [told] * each + [untold] * each


def test_uuids_of_lines_which_other_programs_wrote() -> None:
    schema = pa.schema([METADATA.field("_uuid"), ("n", pa.int64())])
    line = b'{"n":2,"_meta":{"uuid":"%b"}}\n' % uuid_at(2).text.encode()
    rows = rows_of("json", schema, JsonLines().encode({"n": 1}, uuid_at(1)) + line + b'{"n":3}\n')
    assert rows == [
        {"_uuid": uuid_at(1).text, "n": 1},
        {"_uuid": uuid_at(2).text, "n": 2},
        {"_uuid": None, "n": 3},
    ]


def test_a_window_of_time_has_its_begin_and_not_its_end() -> None:
    data = b"".join(JsonLines().encode({"n": second}, uuid_at(second)) for second in range(4)) + b'{"n":9}\n'
    since, before = NOON_NS + 1_000_000_000, NOON_NS + 3_000_000_000
    assert rows_of("json", NUMBER, data, since_ns=since, before_ns=before) == [{"n": 1}, {"n": 2}]


def test_json_is_read_as_what_it_can_hold_and_cast() -> None:
    schema = pa.schema([("day", pa.date32()), ("days", pa.list_(pa.date32())), ("small", pa.int16())])
    rows = rows_of("json", schema, b'{"day":"2026-11-15","days":["2026-11-16"],"small":3}\n{"small":null}\n')
    assert rows == [
        {"day": date(2026, 11, 15), "days": [date(2026, 11, 16)], "small": 3},
        {"day": None, "days": None, "small": None},
    ]
    with pytest.raises(InvalidArgument, match="cannot hold a column of map"):
        decoder_of("json", pa.schema([("m", pa.map_(pa.string(), pa.string()))]), use_threads=False)


def test_batches_need_a_column_to_count_their_rows_by() -> None:
    with pytest.raises(InvalidArgument, match="needs a column"):
        decoder_of("arrow", METADATA, use_threads=False)


def test_raw_has_one_column() -> None:
    with pytest.raises(InvalidArgument, match="one column, value"):
        decoder_of("raw", NUMBER, use_threads=False)


def test_frames_of_several_schemas_are_cast_and_what_they_lack_is_null() -> None:
    wanted = pa.schema([("n", pa.int64()), ("text", pa.string())])
    small, other = pa.schema([("n", pa.int32())]), pa.schema([("text", pa.string()), ("n", pa.int64())])
    data = ArrowBatches(small).encode(pa.record_batch({"n": [1]}, schema=small), uuid_at(0))
    data += ArrowBatches(other).encode(pa.record_batch({"text": ["x"], "n": [2]}, schema=other), uuid_at(1))
    data += Fixed().encode(b"", uuid_at(2))  # no rows at all
    assert rows_of("arrow", wanted, data) == [{"n": 1, "text": None}, {"n": 2, "text": "x"}]
    with pytest.raises(InvalidArgument, match="no Arrow IPC stream"):
        rows_of("arrow", wanted, Fixed().encode(b"rubbish, rubbish", uuid_at(0)))


def test_untracked_counts_every_message_but_acks_and_keeps_their_times() -> None:
    lines = JsonLines()
    schema = pa.schema([("n", pa.int64()), METADATA.field("_published")])
    data = lines.encode({"n": 1}, uuid_at(0)) + lines.acknowledgement(uuid_at(1, ACK_TXN)) + b'{"n":2}\n'
    decoder = Untracked(SparkRows(decoder_of("json", schema, use_threads=False), "json", "j", schema))
    found = decoder.columns(data)
    assert not found.clocks.any()
    table = decoder.decode([Piece(BASE, data, found.begins, found.ends, found.clocks)])
    assert table.column("n").to_pylist() == [1, 2]
    assert [moment is not None for moment in table.column("_published").to_pylist()] == [True, False]


def test_texts_of_uuids() -> None:
    uuids = [uuid_at(second, flags=ACK_TXN) for second in range(3)]
    clocks = np.array([uuid.clock for uuid in uuids], np.uint64)
    assert string_array(uuid_texts(uuids[0].producer, clocks, ACK_TXN)).to_pylist() == [uuid.text for uuid in uuids]
