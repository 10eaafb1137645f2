"""What is committed by what, in columns. That it is the same as one by one is in test_rows_reader.py."""

import numpy as np

from penstock.kernel.ids import Clock, Offset
from penstock.messages.columns import Columns
from penstock.messages.outcome import SequenceOutcome
from penstock.messages.read_state import NO_SPAN
from penstock.messages.sequencing.vector_sequencer import PENDING, VectorSequencer, VectorSpan
from penstock.messages.uuid import ProducerId

OUTSIDE, CONTINUE, ACK = 0, 1, 2


def columns(*rows: tuple[int, int, int]) -> Columns:
    """Rows of (producer, clock, flags), ten bytes each."""
    producers, clocks, flags = (np.array(column, np.uint64) for column in zip(*rows, strict=True))
    begins = np.arange(len(rows)) * 10
    return Columns(begins, begins + 10, producers, clocks, flags, [], len(rows) * 10)


def test_a_row_is_committed_by_the_next_ack_of_its_producer() -> None:
    sequencer = VectorSequencer()
    result = sequencer.sequence(
        Offset(0),
        columns((1, 5, CONTINUE), (2, 5, CONTINUE), (1, 6, ACK), (3, 9, OUTSIDE), (2, 6, CONTINUE), (0, 0, 0)),
    )
    assert result.commits.tolist() == [2, PENDING, 2, 3, PENDING, 5]
    assert (result.spans, result.anomalies) == ({}, [])
    assert sequencer.begin_of(ProducerId(2)) == 10
    assert sequencer.begin_of(ProducerId(1)) == NO_SPAN


def test_a_span_from_before_the_chunk_is_named() -> None:
    sequencer = VectorSequencer()
    sequencer.sequence(Offset(0), columns((1, 5, CONTINUE), (1, 6, CONTINUE)))
    result = sequencer.sequence(Offset(20), columns((1, 7, CONTINUE), (1, 8, ACK)))
    assert result.spans == {1: VectorSpan(ProducerId(1), Offset(0), Clock(4), Clock(8))}
    assert result.closed == [ProducerId(1)]
    assert result.commits.tolist() == [1, 1]


def test_producers_which_do_odd_things_are_looked_at_one_by_one() -> None:
    sequencer = VectorSequencer()
    result = sequencer.sequence(
        Offset(0),
        columns((1, 5, CONTINUE), (1, 5, CONTINUE), (1, 9, CONTINUE), (1, 7, ACK), (2, 5, CONTINUE), (2, 6, OUTSIDE)),
    )
    assert result.commits.tolist() == [3, PENDING, PENDING, 3, PENDING, 5]
    assert result.anomalies == [(5, SequenceOutcome.OUTSIDE_CLOBBERS)]
    again = sequencer.sequence(Offset(60), columns((1, 7, ACK), (1, 3, ACK), (2, 6, OUTSIDE)))
    assert again.commits.tolist() == [PENDING] * 3
    assert again.anomalies == [(1, SequenceOutcome.ACK_DEEP_ROLLBACK)]


def test_an_empty_chunk_changes_nothing() -> None:
    sequencer = VectorSequencer()
    nothing, nobody = np.array([], np.int64), np.array([], np.uint64)
    empty = Columns(nothing, nothing, nobody, nobody, nobody, [], 0)
    assert len(sequencer.sequence(Offset(0), empty).commits) == 0
    assert sequencer.state().offset == 0
