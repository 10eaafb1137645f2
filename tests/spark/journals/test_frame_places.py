"""Places of frames: which frames are for Java, and that looking at them reads nothing beyond their bytes."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.messages.guarded import guarded

from penstock.journals.records.fragment import Fragment
from penstock.kernel.ids import Clock, Offset
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.fixed import BODY_AT, Fixed
from penstock.messages.row_decoder import Piece
from penstock.messages.uuid import ProducerId, Uuid
from penstock.spark.journals.frame_places import FramePlaces, run_around

PLAIN = pa.schema([("n", pa.int64()), ("text", pa.string())])
MORE = pa.schema([("text", pa.string()), ("extra", pa.float64()), ("n", pa.int64())])
UUID = Uuid(ProducerId(1), Clock(1 << 40), 1)


def frame(schema: Any, **columns: list[Any]) -> bytes:
    return ArrowBatches(schema).encode(pa.record_batch(columns, schema=schema), UUID)


PLAIN_FRAME = frame(PLAIN, n=[1, None], text=["a", "é"])
MORE_FRAME = frame(MORE, n=[1], text=["a"], extra=[0.5])
ACK = ArrowBatches(PLAIN).acknowledgement(UUID)


def places_of(data: Any, *, base: int = 0) -> tuple[bool, list[tuple[int, int]]]:
    decoder = FramePlaces(PLAIN)
    columns = decoder.columns(data)
    table = decoder.decode([Piece(Offset(base), data, columns.begins, columns.ends, columns.clocks)])
    return decoder.is_plain, list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_frames_of_plain_schemas_are_for_java() -> None:
    frames = [PLAIN_FRAME, ACK, MORE_FRAME, PLAIN_FRAME, frame(PLAIN, n=[], text=[])]
    ends = (100 + np.cumsum([len(each) for each in frames])).tolist()
    assert places_of(b"".join(frames), base=100) == (True, list(zip([100, *ends[:-1]], ends, strict=True)))


def test_other_types_compressed_buffers_and_no_batches_are_not() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, PLAIN, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.record_batch({"n": [1], "text": ["a" * 1000]}, schema=PLAIN))
    for odd in (
        frame(pa.schema([("n", pa.int32())]), n=[1]),  # which must be cast
        frame(pa.schema([("n", pa.int64()), ("list", pa.list_(pa.int64()))]), n=[1], list=[[1]]),
        Fixed().encode(sink.getvalue().to_pybytes(), UUID),
        Fixed().encode(b"no stream", UUID),
        Fixed().encode(b"no", UUID),
    ):
        assert not places_of(PLAIN_FRAME + odd + PLAIN_FRAME)[0]


@given(st.data())
def test_nothing_is_read_beyond_a_frame(data: st.DataObject) -> None:
    damaged = bytearray(PLAIN_FRAME)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(BODY_AT, len(damaged) - 1))
        damaged[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    cut = data.draw(st.integers(BODY_AT, len(damaged)))
    damaged[4:8] = (cut - 8).to_bytes(4, "little")
    with guarded(PLAIN_FRAME + bytes(damaged[:cut])) as view:
        places_of(view)


def test_a_run_has_no_holes_and_nothing_which_is_not_there() -> None:
    missing = [Fragment("any", Offset(at), Offset(at + 10), backing_store="file:///nowhere/") for at in (0, 10)]
    assert run_around(missing, 5) == []
    assert run_around([], 5) == []
