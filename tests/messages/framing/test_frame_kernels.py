"""The loops over frames: they agree with Arrow and with one frame at a time, and never read what is not there."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.messages.guarded import guarded

from penstock.kernel.ids import Clock
from penstock.messages.columns import fixed_columns
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.fixed import BODY_AT, Fixed
from penstock.messages.uuid import ProducerId, Uuid

SCHEMA = pa.schema(
    [("name", pa.string()), ("n", pa.int64()), ("small", pa.int16()), ("at", pa.timestamp("us")), ("raw", pa.binary())]
)
UUID = Uuid(ProducerId(1), Clock(1 << 40), 1)
FRAMING = ArrowBatches(SCHEMA)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.none() | st.text(max_size=20),
            "n": st.none() | st.integers(-(2**63), 2**63 - 1),
            "small": st.none() | st.integers(-5, 5),
            "at": st.none() | st.datetimes(),
            "raw": st.none() | st.binary(max_size=9),
        }
    ),
    max_size=12,
)
PLAIN = pa.RecordBatch.from_pylist(
    [{"name": f"row {n}", "n": n, "small": n, "raw": b"x" * n} for n in range(9)], SCHEMA
)
NULLS = pa.RecordBatch.from_pylist([{"name": None, "n": 1}, {"name": "a"}, {}], SCHEMA)


def frames_of(*batches: Any) -> tuple[bytes, Any, Any]:
    frames = [FRAMING.encode(batch, UUID) for batch in batches]
    ends = np.cumsum([len(frame) for frame in frames])
    return b"".join(frames), ends - np.array([len(frame) for frame in frames]), ends


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_what_is_believed_is_what_was_written(rows: list[list[dict[str, Any]]]) -> None:
    batches = [pa.RecordBatch.from_pylist(each, SCHEMA) for each in rows]
    found = FRAMING.decode_all(*frames_of(*batches))
    is_ascii = all((row["name"] or "").isascii() for each in rows for row in each)
    is_ascii &= all((row["raw"] or b"").isascii() for each in rows for row in each)
    assert found is not None or not is_ascii
    if found is not None:
        assert found == batches
        for batch in found:
            batch.validate(full=True)


def test_rows_acks_and_slices_are_believed() -> None:
    data, begins, ends = frames_of(PLAIN, PLAIN.slice(3, 4), NULLS, PLAIN.slice(0, 0))
    ack = FRAMING.acknowledgement(UUID)
    begins, ends = np.append(begins, len(data)), np.append(ends, len(data) + len(ack))
    assert FRAMING.decode_all(data + ack, begins, ends) == [
        PLAIN, PLAIN.slice(3, 4), NULLS, PLAIN.slice(0, 0), FRAMING.nothing,
    ]  # fmt: skip


def test_another_schema_compressed_buffers_and_nested_columns_are_left() -> None:
    other = ArrowBatches(pa.schema([("x", pa.int64())]))
    frame = other.encode(pa.record_batch({"x": [1]}), UUID)
    place = np.array([0]), np.array([len(frame)])
    assert FRAMING.decode_all(frame, *place) is None
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    squeezed = Fixed().encode(SCHEMA.serialize().to_pybytes() + PLAIN.serialize().to_pybytes(), UUID)
    assert FRAMING.decode_all(squeezed, np.array([0]), np.array([len(squeezed)])) == [PLAIN]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA, options=options) as writer:
        writer.write_batch(PLAIN)
    squeezed = Fixed().encode(sink.getvalue().to_pybytes(), UUID)
    assert FRAMING.decode_all(squeezed, np.array([0]), np.array([len(squeezed)])) is None
    nested = ArrowBatches(pa.schema([("l", pa.list_(pa.int64()))]))
    frame = nested.encode(pa.record_batch({"l": [[1], [2, 3]]}), UUID)
    assert nested.decode_all(frame, np.array([0]), np.array([len(frame)])) is None


@given(st.data())
def test_damage_is_never_believed_nor_read_beyond(data: st.DataObject) -> None:
    """What is believed is a batch in which nothing is out of place; what Arrow refuses is never believed."""
    content, begins, _ = frames_of(data.draw(st.sampled_from([PLAIN, NULLS])))
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(BODY_AT, len(content) - 1))
        damaged[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    cut = data.draw(st.integers(BODY_AT, len(content)))
    with guarded(bytes(damaged[:cut])) as view:
        found = FRAMING.decode_all(view, begins, np.array([cut]))
        if found is not None:
            assert [FRAMING.decode(bytes(view))] == found  # which validates all of it


@given(st.lists(st.binary(max_size=40), max_size=5), st.binary(max_size=40), st.integers(0, 60))
def test_frames_are_found_up_to_the_last_byte(bodies: list[bytes], rest: bytes, cut: int) -> None:
    whole = b"".join([Fixed().encode(body, UUID) for body in bodies]) + rest
    with guarded(whole[: max(0, len(whole) - cut)]) as view:
        found, split = fixed_columns(view, Fixed()), Fixed().split(bytes(view))
        assert found.ends.tolist() == list(split.ends)
        assert found.consumed == split.consumed
        assert [(bad.begin, bad.end) for bad in found.bad] == [(bad.begin, bad.end) for bad in split.bad]
        assert found.clocks.tolist() == [UUID.clock] * len(split.ends)
