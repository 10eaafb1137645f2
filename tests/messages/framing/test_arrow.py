from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Clock
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.fixed import BODY_AT
from penstock.messages.uuid import ProducerId, Uuid

SCHEMA = pa.schema([("name", pa.string()), ("n", pa.int64())])
UUID = Uuid(ProducerId(1), Clock(1 << 40), 1)
FRAMING = ArrowBatches(SCHEMA)
BATCH = pa.record_batch([pa.array(["ann", None, "bob"]), pa.array([1, 2, None])], schema=SCHEMA)
FRAME = FRAMING.encode(BATCH, UUID)


def test_the_body_is_a_stream_which_arrow_itself_reads() -> None:
    assert pa.ipc.open_stream(FRAME[BODY_AT:]).read_all().to_batches() == [BATCH]


def test_columns_lie_in_the_frame_and_frames_keep_them_aligned() -> None:
    assert len(FRAME) % 8 == 0
    buffer = pa.py_buffer(FRAME)
    column = FRAMING.decode_at(buffer, 0, len(FRAME)).column("n")
    address = column.buffers()[1].address
    assert buffer.address <= address < buffer.address + buffer.size


def test_another_schema_is_refused_on_both_sides() -> None:
    other = pa.record_batch({"x": [1]})
    with pytest.raises(InvalidArgument, match="another schema"):
        FRAMING.encode(other, UUID)
    with pytest.raises(InvalidArgument, match="another schema"):
        FRAMING.decode(ArrowBatches(other.schema).encode(other, UUID))


def test_the_same_schema_as_somebody_else_writes_it_is_read() -> None:
    foreign = pa.schema([("name", pa.string()), ("n", pa.int64())], metadata={"who": "else"})
    frame = ArrowBatches(foreign).encode(BATCH.replace_schema_metadata({"who": "else"}), UUID)
    assert FRAMING.decode(frame).to_pydict() == BATCH.to_pydict()


def test_dictionary_columns_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="dictionary"):
        ArrowBatches(pa.schema([("d", pa.dictionary(pa.int8(), pa.string()))]))


@given(st.integers(BODY_AT, len(FRAME) - 1), st.integers(1, 255), st.booleans())
def test_damage_is_an_error_or_another_batch_never_a_crash(at: int, flip: int, is_cut: bool) -> None:
    damaged = bytearray(FRAME)
    damaged[at] ^= flip
    frame = bytes(damaged[:at] if is_cut else damaged)
    try:
        found: Any = FRAMING.decode(frame)
    except InvalidArgument:
        return
    assert len(found.to_pylist()) == found.num_rows
