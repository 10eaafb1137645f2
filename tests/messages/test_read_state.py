from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import Clock, Offset
from penstock.messages.read_state import NO_SPAN, ProducerState, ReadState
from penstock.messages.uuid import ProducerId


@st.composite
def states(draw: st.DrawFn) -> ReadState:
    offset = draw(st.integers(1, 2**60))
    producers = []
    for producer in sorted(draw(st.sets(st.integers(0, 2**48 - 1), max_size=5))):
        last_ack = draw(st.integers(0, 2**64 - 1))
        begin = draw(st.one_of(st.just(-1), st.integers(0, offset)))
        ahead = draw(st.integers(0, 1000)) if begin != NO_SPAN else 0
        seen = draw(st.integers(0, offset))
        producers.append(
            ProducerState(ProducerId(producer), Clock(last_ack), Clock(last_ack + ahead), Offset(begin), Offset(seen))
        )
    return ReadState(Offset(offset), Clock(draw(st.integers(0, 2**64 - 1))), tuple(producers))


@given(states())
def test_a_state_survives_its_encoding(state: ReadState) -> None:
    assert ReadState.decode(state.encode()) == state


@given(states(), st.data())
def test_other_bytes_are_refused_or_are_another_state(state: ReadState, data: st.DataObject) -> None:
    encoded = bytearray(state.encode())
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    cut = bytes(encoded[: data.draw(st.integers(0, len(encoded)))])
    for damaged in (bytes(encoded), cut, bytes(encoded) + b"\0"):
        with suppress(MalformedFrame):
            assert ReadState.decode(damaged).encode() == damaged


def test_a_later_version_is_named() -> None:
    with pytest.raises(MalformedFrame, match="version 9"):
        ReadState.decode(b"\x09\0\0\0")


def test_a_producer_takes_few_bytes() -> None:
    clock = 0x1F00_0000_0000_0000
    idle = ProducerState(ProducerId(1 << 40), Clock(clock), Clock(clock), NO_SPAN, Offset(10_000_000))
    state = ReadState(Offset(10_100_000), Clock(clock + 10**9), (idle,))
    assert len(state.encode()) == 30


def test_the_journal_is_needed_from_the_first_open_span_on() -> None:
    spans = [
        ProducerState(ProducerId(n), Clock(1), Clock(2), Offset(begin), Offset(90))
        for n, begin in enumerate((70, -1, 50))
    ]
    assert ReadState(Offset(100), Clock(5), tuple(spans)).begin == 50
    assert ReadState(Offset(100)).begin == 100
