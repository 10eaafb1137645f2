"""Whichever way a chunk is sequenced, it is the same: compiled, by NumPy, and one by one; commits, spans and state."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.messages.histories import EVERY_HORIZON, WILD, ByNumpy, Line, orderly, tame

from penstock.kernel.ids import Clock, Offset
from penstock.messages.columns import Columns
from penstock.messages.message import Message
from penstock.messages.outcome import SequenceOutcome
from penstock.messages.read_state import NO_SPAN, Horizon
from penstock.messages.sequencing.ring import Ring
from penstock.messages.sequencing.sequence_kernels import PENDING, commits_of
from penstock.messages.sequencing.sequencer import Sequencer
from penstock.messages.sequencing.vector_sequencer import Sequenced, VectorSequencer, VectorSpan
from penstock.messages.uuid import ProducerId

ROW_BYTES = 10
CONTINUE, ACK = 1, 2


class Compiled(VectorSequencer):
    """Never anything else."""

    def _in_parts(self, base: int, columns: Columns) -> Sequenced:
        raise AssertionError("what is as it should be is left to NumPy")


def columns_of(history: list[Line]) -> Columns:
    """Their UUIDs; a message without one has the zeros which stand for none."""
    ids = [(line.producer + 1) * 0x1F3D5B79A1 & (1 << 48) - 1 if line.clock else 0 for line in history]
    begins = np.arange(len(history)) * ROW_BYTES
    numbers = (ids, [line.clock for line in history], [line.flags if line.clock else 0 for line in history])
    producers, clocks, flags = (np.array(column, np.uint64) for column in numbers)
    return Columns(begins, begins + ROW_BYTES, producers, clocks, flags, [], len(history) * ROW_BYTES)


def one_by_one(sequencer: Sequencer, base: int, columns: Columns) -> Sequenced:
    """What the Sequencer makes of a chunk; closed producers and anomalies in the order of the rows."""
    result = Sequenced(np.full(len(columns), PENDING, np.int64), {}, [], [])
    for row in range(len(columns)):
        place = Offset(base + row * ROW_BYTES), Offset(base + (row + 1) * ROW_BYTES)
        producer, clock = ProducerId(int(columns.producers[row])), Clock(int(columns.clocks[row]))
        before = {each.producer: each for each in sequencer.state().producers}.get(producer)
        outcome = sequencer.push(Message(*place, producer, clock, int(columns.flags[row]), b""))
        for message in sequencer.take():
            if message.begin >= base:
                result.commits[(message.begin - base) // ROW_BYTES] = row
        if outcome.is_anomaly:
            result.anomalies.append((row, outcome))
        is_over = outcome.is_commit or outcome in (
            SequenceOutcome.ACK_CLEAN_ROLLBACK,
            SequenceOutcome.ACK_DEEP_ROLLBACK,
        )
        if clock and is_over and before is not None and NO_SPAN != before.begin < base:
            result.closed.append(producer)
            if outcome is SequenceOutcome.ACK_COMMIT:
                result.spans[row] = VectorSpan(producer, before.begin, before.last_ack, clock)
    return result


def as_told(result: Sequenced) -> object:
    """All of it, orders included."""
    return result.commits.tolist(), list(result.spans.items()), result.closed, result.anomalies


def as_sets(result: Sequenced) -> object:
    """Without the orders in which producers are told."""
    return result.commits.tolist(), result.spans, set(result.closed), sorted(result.anomalies, key=lambda each: each[0])


@given(st.one_of(orderly(), tame(), WILD), EVERY_HORIZON, st.data())
def test_all_ways_are_the_same(history: list[Line], horizon: Horizon, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(history)), max_size=6)))
    either, by_numpy = VectorSequencer(horizon=horizon), ByNumpy(horizon=horizon)
    sequencer = Sequencer(ring=Ring(1 << 20), horizon=horizon)
    for begin, end in pairwise([0, *cuts, len(history)]):
        columns, base = columns_of(history[begin:end]), Offset(begin * ROW_BYTES)
        told = either.sequence(base, columns)
        assert as_told(told) == as_told(by_numpy.sequence(base, columns))
        assert as_sets(told) == as_sets(one_by_one(sequencer, base, columns))
        assert either.state() == by_numpy.state() == sequencer.state()


@given(orderly(), st.data())
def test_what_is_as_it_should_be_is_compiled(history: list[Line], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(history)), max_size=6)))
    compiled, by_numpy = Compiled(), ByNumpy()
    for begin, end in pairwise([0, *cuts, len(history)]):
        columns, base = columns_of(history[begin:end]), Offset(begin * ROW_BYTES)
        assert as_told(compiled.sequence(base, columns)) == as_told(by_numpy.sequence(base, columns))
    assert compiled.state() == by_numpy.state()


@pytest.mark.parametrize("count", [1, 127, 128, 129, 2048, 2049, 10_000])
def test_any_number_of_producers(count: int) -> None:
    """Around the numbers for which there is room: two messages of each in two chunks, and an ACK of most."""
    compiled, by_numpy = Compiled(), ByNumpy()
    order = np.random.default_rng(count).permutation(count).tolist()
    chunks = [
        [Line(who, clock, CONTINUE) for clock in (1, 2) for who in order],
        [Line(who, 3, CONTINUE) for who in order] + [Line(who, 4, ACK) for who in reversed(order) if who % 5],
    ]
    base = Offset(0)
    for chunk in chunks:
        columns = columns_of(chunk)
        assert as_told(compiled.sequence(base, columns)) == as_told(by_numpy.sequence(base, columns))
        base = Offset(base + columns.consumed)
    assert compiled.state() == by_numpy.state()
    assert len(compiled.state().producers) == count


@pytest.mark.parametrize(
    "odd",
    [
        [Line(1, 5, CONTINUE), Line(1, 5, CONTINUE)],
        [Line(1, 5, 0), Line(2, 9, 0), Line(1, 4, ACK)],
        [Line(1, 5, CONTINUE), Line(2, 9, 0), Line(1, 6, 0)],
        [Line(1, 5, CONTINUE), Line(2, 9, 0), Line(1, 6, 3)],
    ],
)
def test_what_is_odd_within_a_chunk_is_not_compiled(odd: list[Line]) -> None:
    assert commits_of(columns_of(odd)) is None
    assert commits_of(columns_of(odd[:-1])) is not None


@pytest.mark.parametrize("odd", [Line(1, 6, CONTINUE), Line(1, 5, ACK), Line(1, 7, 0), Line(1, 7, 3)])
def test_what_is_odd_after_what_is_known_changes_nothing(odd: Line) -> None:
    sequencer = VectorSequencer()
    sequencer.sequence(Offset(0), columns_of([Line(1, 5, CONTINUE), Line(1, 6, CONTINUE), Line(2, 3, CONTINUE)]))
    before = sequencer.state()
    chunk = columns_of([Line(2, 4, ACK), odd])
    assert sequencer._at_once(before.offset, chunk) is None
    assert sequencer.state() == before
    assert sequencer.sequence(before.offset, chunk).commits[0] == 0
