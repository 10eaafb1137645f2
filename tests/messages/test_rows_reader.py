"""The vectorised reader against the one-by-one reader: same rows, same order, same state, on every history."""

import collections
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.messages.histories import EVERY_HORIZON, WILD, ByNumpy, Line, orderly, tame

from penstock.kernel.errors import InvalidArgument, MalformedFrame
from penstock.kernel.ids import Clock, Offset
from penstock.messages.clock import from_unix_ns
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.fixed import Fixed
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.message import Replay
from penstock.messages.publisher import Publisher
from penstock.messages.read_state import Horizon, ReadState
from penstock.messages.reader import Anomalous, CommittedMessage, CommittedReader, OnBad, Skipped
from penstock.messages.row_decoder import ArrowRows, JsonRows, Piece, RawRows, RowDecoder
from penstock.messages.rows_reader import Rows, RowsReader
from penstock.messages.sequencing.vector_sequencer import VectorSequencer
from penstock.messages.uuid import ProducerId, Uuid, producer_id

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
LINES = JsonLines()
BATCHES = ArrowBatches(SCHEMA)
RAW = Fixed()
NOON = 1_700_000_000_000_000_000


def uuid_of(line: Line) -> Uuid | None:
    """Clocks as large as today's: arithmetic which passes through floats would not tell neighbours apart."""
    clock = Clock(line.clock if line.clock >= 1 << 53 else from_unix_ns(NOON) + line.clock)
    return Uuid(ProducerId(line.producer + 1), clock, line.flags) if line.clock else None


def json_frame(number: int, line: Line) -> bytes:
    uuid = uuid_of(line)
    value = {"n": number, "text": "x" * line.size}
    if uuid is not None and number % 7 == 3:  # as another program would write it
        return f'{{"n":{number},"_meta": {{"uuid":"{uuid.text}"}},"text":"é"}}\n'.encode()
    return LINES.encode(value, uuid)


def arrow_frame(number: int, line: Line) -> bytes:
    uuid = uuid_of(line)
    rows = {"n": [number] * (1 + line.size // 20), "text": ["é"] * (1 + line.size // 20)}
    return BATCHES.encode(pa.record_batch(rows, schema=SCHEMA), uuid)


def read_rows(
    journal: bytes,
    decoder: RowDecoder,
    state: ReadState,
    horizon: Horizon,
    ring_bytes: int,
    chunk: int,
    *,
    is_ordered: bool = True,
    sequencer: type[VectorSequencer] = VectorSequencer,
) -> tuple[list[Any], ReadState]:
    front_bytes = 16 + chunk // 50  # so that chunks are large beside it
    reader = RowsReader(
        "j",
        decoder,
        state,
        horizon=horizon,
        ring_bytes=ring_bytes,
        front_bytes=front_bytes,
        is_ordered=is_ordered,
    )
    reader._sequencer = sequencer(state, horizon)
    found: list[Any] = []
    for at in range(state.offset, len(journal), chunk):
        reader.feed(Offset(at), journal[at : at + chunk])
        while (one := reader.next()) is not None:
            match one:
                case Rows(table, _):
                    found += table.column(0).to_pylist()
                case Replay(begin, end):
                    reader.replay(begin, journal[begin : min(end, begin + chunk)])
                case _:
                    assert isinstance(one, Anomalous)
    return found, ReadState.decode(reader.state().encode())


def said(value: Any) -> list[Any]:
    if isinstance(value, bytes):
        return [value]
    return [value["n"]] if isinstance(value, dict) else list(value.column("n").to_pylist())


def read_one_by_one(journal: bytes, framing: Any, horizon: Horizon) -> tuple[list[Any], ReadState]:
    reader = CommittedReader("j", framing, horizon=horizon)
    reader.feed(Offset(0), journal)
    found: list[Any] = []
    while (one := reader.next()) is not None:
        if isinstance(one, CommittedMessage):
            for message in one.messages:
                if not message.is_ack:
                    found += said(framing.decode(message.frame))
    return found, reader.state()


@given(
    st.one_of(WILD, tame(), orderly()),
    EVERY_HORIZON,
    st.sampled_from([0, 200, 1 << 20]),
    st.integers(60, 4000),
    st.data(),
)
def test_json_rows_are_those_of_the_one_by_one_reader(
    history: list[Line], horizon: Horizon, ring_bytes: int, chunk: int, data: st.DataObject
) -> None:
    journal = b"".join(json_frame(number, line) for number, line in enumerate(history))
    rows, state = read_one_by_one(journal, LINES, horizon)
    decoder = JsonRows(SCHEMA, use_threads=False)
    for each in (VectorSequencer, ByNumpy):
        found = read_rows(journal, decoder, ReadState(), horizon, ring_bytes, chunk, sequencer=each)
        assert found == (rows, state), each
    unordered, same = read_rows(journal, decoder, ReadState(), horizon, ring_bytes, chunk, is_ordered=False)
    assert (sorted(unordered), same) == (sorted(rows), state)
    cut = data.draw(st.integers(0, len(journal)))
    before, middle = read_rows(journal[:cut], decoder, ReadState(), horizon, ring_bytes, chunk)
    behind, end = read_rows(journal, decoder, middle, horizon, ring_bytes, chunk)
    assert (before + behind, end) == (rows, state), "and a restart changes nothing"


@given(tame(), st.sampled_from([0, 3000, 1 << 20]), st.integers(200, 9000))
def test_arrow_rows_are_those_of_the_one_by_one_reader(history: list[Line], ring_bytes: int, chunk: int) -> None:
    journal = b"".join(arrow_frame(number, line) for number, line in enumerate(history))
    found = read_rows(journal, ArrowRows(SCHEMA), ReadState(), Horizon(), ring_bytes, chunk)
    assert found == read_one_by_one(journal, BATCHES, Horizon())


@given(tame(), st.sampled_from([0, 300, 1 << 20]), st.integers(60, 4000))
def test_raw_rows_are_those_of_the_one_by_one_reader(history: list[Line], ring_bytes: int, chunk: int) -> None:
    frames = [RAW.encode(b"%d" % number * (1 + line.size // 9), uuid_of(line)) for number, line in enumerate(history)]
    found = read_rows(b"".join(frames), RawRows(), ReadState(), Horizon(), ring_bytes, chunk)
    assert found == read_one_by_one(b"".join(frames), RAW, Horizon())


def line(number: int, text: str = "") -> bytes:
    return Publisher(producer_id(number), NOON).committed("j", LINES, [{"n": number, "text": text}])


def numbers(found: object) -> list[int]:
    assert isinstance(found, Rows)
    return list(found.table.column("n").to_pylist())


@pytest.mark.parametrize(
    "bad",
    [
        b"rubbish\n",
        line(7).replace(b'"n":7', b'"n":{}'),  # a good UUID, another type
        line(7).replace(b'"n":7', b'"n":7,,'),
        line(7)[:-1] + b"{}\n",
        b"\n",
    ],
)
def test_bad_lines_are_an_error_with_their_offset_or_skipped(bad: bytes) -> None:
    journal = line(1) + line(2) + bad + line(3)
    at = len(line(1) * 2)
    failing = RowsReader("orders", JsonRows(SCHEMA))
    failing.feed(Offset(0), journal)
    for _ in range(2):
        with pytest.raises(MalformedFrame, match=f"orders at {at}: "):
            collections.deque(iter(failing.next, None))
    with pytest.raises(MalformedFrame) as caught:
        failing.next()
    assert caught.value.details["end"] == at + len(bad)
    skipping = RowsReader("orders", JsonRows(SCHEMA), on_bad=OnBad.SKIP)
    skipping.feed(Offset(0), journal)
    assert numbers(skipping.next()) == [1, 2, 3]
    skipped = skipping.next()
    assert isinstance(skipped, Skipped)
    assert (skipped.begin, skipped.end) == (at, at + len(bad))
    assert skipping.next() is None
    assert skipping.state().offset == len(journal)


def test_a_line_longer_than_a_block_of_arrow_is_read() -> None:
    reader = RowsReader("j", JsonRows(SCHEMA))
    reader.feed(Offset(0), line(1) + line(2, text="x" * 600_000) + line(3))
    assert numbers(reader.next()) == [1, 2, 3]


def test_a_replay_of_bytes_which_are_gone_is_an_error_or_a_report() -> None:
    source = Publisher(producer_id(1), NOON)
    pending = source.uncommitted("j", LINES, [{"n": 1}, {"n": 2}])
    ack = source.ack_intents()["j"]
    half = len(pending) // 2
    for on_bad in OnBad:
        reader = RowsReader("j", JsonRows(SCHEMA), ring_bytes=0, on_bad=on_bad)
        reader.feed(Offset(0), pending)
        assert reader.next() is None
        reader.feed(Offset(len(pending)), ack)
        assert reader.next() == Replay(Offset(0), Offset(len(pending)))
        if on_bad is OnBad.FAIL:
            with pytest.raises(MalformedFrame, match="j at 0: gone"):
                reader.replay(Offset(half), pending[half:])
            continue
        reader.replay(Offset(half), pending[half:])
        assert reader.next() == Skipped(Offset(0), Offset(half), "gone, and committed messages were pending there")
        assert numbers(reader.next()) == [2]
        assert reader.next() is None


def test_a_gap_within_a_frame_is_bad_and_a_chunk_from_before_is_refused() -> None:
    reader = RowsReader("j", JsonRows(SCHEMA), on_bad=OnBad.SKIP)
    reader.feed(Offset(100), line(1) + line(2)[:20])
    assert numbers(reader.next()) == [1]
    reader.feed(Offset(2000), line(3))
    assert reader.next() == Skipped(Offset(100 + len(line(1))), Offset(2000), "a gap in the journal cuts off a frame")
    assert numbers(reader.next()) == [3]
    with pytest.raises(InvalidArgument, match="read before"):
        reader.feed(Offset(2000), line(3))


@pytest.mark.parametrize("on_bad", list(OnBad))
def test_messages_which_are_refused_together_and_not_alone_are_an_error_which_names_them(on_bad: OnBad) -> None:
    class Moody(JsonRows):
        def decode(self, pieces: list[Piece]) -> Any:
            if sum(map(len, pieces)) > 1:
                raise InvalidArgument("not together")
            return super().decode(pieces)

    reader = RowsReader("a/journal", Moody(pa.schema([("n", pa.int64())])), on_bad=on_bad)
    reader.feed(Offset(0), b'{"n":1}\n{"n":2}\n')
    for _ in range(2):
        with pytest.raises(MalformedFrame, match="a/journal at 0: not together"):
            reader.next()
