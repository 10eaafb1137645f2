"""The Sequencer against the naive model: any history, any ring, any chunks, restarts anywhere."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.messages.histories import EVERY_HORIZON, WILD, Line, Model, Reading, journal_of, tame

from penstock.kernel.ids import Clock, Offset
from penstock.messages.message import Message, Replay
from penstock.messages.outcome import SequenceOutcome
from penstock.messages.read_state import NO_SPAN, Horizon
from penstock.messages.sequencing.ring import Ring
from penstock.messages.sequencing.sequencer import Sequencer
from penstock.messages.uuid import ProducerId

HISTORIES = st.one_of(WILD, tame())


@given(HISTORIES, EVERY_HORIZON, st.integers(0, 5), st.integers(1, 200), st.sampled_from([1, 2, 1024]))
def test_it_delivers_what_the_model_delivers(
    history: list[Line], horizon: Horizon, ring: int, chunk: int, limit: int
) -> None:
    model = Model(horizon).read(history)
    reading = Reading(journal_of(history), horizon, ring, chunk).run(limit=limit)
    assert reading.delivered == model.delivered
    assert {each.producer - 1: each.last_ack for each in reading.state.producers} == model.acked
    assert {each.producer - 1 for each in reading.state.producers if each.begin != NO_SPAN} == {
        who for who, pending in model.pending.items() if pending
    }


@given(HISTORIES, EVERY_HORIZON, st.data())
def test_restarts_anywhere_change_nothing(history: list[Line], horizon: Horizon, data: st.DataObject) -> None:
    whole = Reading(journal_of(history), horizon, 8, 64).run()
    reading = Reading(journal_of(history), horizon, data.draw(st.integers(0, 4)), data.draw(st.integers(20, 90)))
    for _ in range(data.draw(st.integers(1, 4))):
        reading.run(steps_max=data.draw(st.integers(0, 12)), limit=data.draw(st.sampled_from([1, 2, 1024])))
        reading.ring_length = data.draw(st.integers(0, 4))
    reading.run()
    assert reading.delivered == whole.delivered
    assert reading.state == whole.state


@given(HISTORIES, EVERY_HORIZON, st.data())
def test_the_state_at_an_offset_is_a_function_of_the_bytes(
    history: list[Line], horizon: Horizon, data: st.DataObject
) -> None:
    """However it was reached: in one go, or from the state at an earlier message, with whatever ring."""
    cut = data.draw(st.integers(0, len(history)))
    middle = data.draw(st.integers(0, cut))
    journal = journal_of(history)
    upto = {count: len(journal_of(history[:count])) for count in (middle, cut)}
    at_once = Reading(journal[: upto[cut]], horizon, 8, 1000).run()
    in_two = Reading(journal[: upto[middle]], horizon, 0, 33).run()
    in_two.journal = journal[: upto[cut]]
    assert in_two.run().state.encode() == at_once.state.encode()


def message(clock: int, flags: int, begin: int, producer: int = 1) -> Message:
    return Message(Offset(begin), Offset(begin + 10), ProducerId(producer), Clock(clock), flags, b"")


def outcomes(*lines: tuple[int, int], ring: int = 8) -> list[SequenceOutcome]:
    """The outcomes of (flags, clock), one after the other."""
    sequencer = Sequencer(ring=Ring(ring))
    found = []
    for number, (flags, clock) in enumerate(lines):
        found.append(sequencer.push(message(clock, flags, number * 10)))
        if (replay := sequencer.replay) is not None:
            sequencer.feed([message(c, f, i * 10) for i, (f, c) in enumerate(lines)], replay.end)
        sequencer.take()
        sequencer.check()
    return found


def test_every_row_of_the_table() -> None:
    out, cont, ack = 0, 1, 2
    assert outcomes((out, 5), (out, 5), (out, 4)) == [
        SequenceOutcome.OUTSIDE_COMMIT, SequenceOutcome.OUTSIDE_DUPLICATE, SequenceOutcome.OUTSIDE_DUPLICATE,
    ]  # fmt: skip
    assert outcomes((cont, 5), (out, 6)) == [SequenceOutcome.CONTINUE_BEGIN, SequenceOutcome.OUTSIDE_CLOBBERS]
    assert outcomes((ack, 5), (cont, 5), (cont, 4)) == [
        SequenceOutcome.ACK_EMPTY, SequenceOutcome.CONTINUE_ALREADY_ACKED, SequenceOutcome.CONTINUE_ALREADY_ACKED,
    ]  # fmt: skip
    assert outcomes((cont, 5), (cont, 6), (cont, 6), (ack, 7)) == [
        SequenceOutcome.CONTINUE_BEGIN, SequenceOutcome.CONTINUE_EXTEND,
        SequenceOutcome.CONTINUE_DUPLICATE, SequenceOutcome.ACK_COMMIT,
    ]  # fmt: skip
    assert outcomes((cont, 5), (cont, 6), (ack, 7), ring=1)[-1] is SequenceOutcome.ACK_REPLAY
    assert outcomes((ack, 5), (cont, 6), (ack, 5), (ack, 4)) == [
        SequenceOutcome.ACK_EMPTY, SequenceOutcome.CONTINUE_BEGIN,
        SequenceOutcome.ACK_CLEAN_ROLLBACK, SequenceOutcome.ACK_DEEP_ROLLBACK,
    ]  # fmt: skip
    assert outcomes((777, 5), (0, 0)) == [SequenceOutcome.OUTSIDE_COMMIT, SequenceOutcome.UNTRACKED]


def test_a_commit_is_through_the_clock_of_its_ack() -> None:
    sequencer = Sequencer()
    for number, clock in enumerate((5, 6, 9)):
        sequencer.push(message(clock, 1, number * 10))
    sequencer.push(message(7, 2, 30))
    assert [each.clock for each in sequencer.take()] == [5, 6, 7]
    assert not sequencer.has_pending()


def test_a_delivery_taken_in_parts_can_be_gone_on_with_from_any_of_them() -> None:
    lines = [message(clock, 1, number * 10) for number, clock in enumerate((5, 6, 7))]
    sequencer = Sequencer()
    for line in lines:
        sequencer.push(line)
    ack = message(8, 2, 30)
    sequencer.push(ack)
    assert [each.clock for each in sequencer.take(1)] == [5]
    again = Sequencer(sequencer.state())
    assert again.offset == 30, "the ACK is read again"
    assert again.push(ack) is SequenceOutcome.ACK_REPLAY
    assert again.replay == Replay(Offset(10), Offset(30))
    assert [each.clock for each in again.feed(lines[1:2], Offset(20))] == [6]
    assert [each.clock for each in again.feed(lines[2:], Offset(30))] == [7]
    assert again.take() == [ack]


def test_a_clock_from_the_next_century_does_not_make_it_forget_who_is_at_work() -> None:
    horizon = Horizon(clock=10, bytes=1000)
    sequencer = Sequencer(horizon=horizon)
    sequencer.push(message(5, 1, 0))
    sequencer.push(message(10**18, 0, 10, producer=2))
    sequencer.take()
    assert sequencer.push(message(6, 2, 20)) is SequenceOutcome.ACK_COMMIT
    assert len(sequencer.take()) == 2
    sequencer.push(message(6, 0, 2000, producer=3))
    sequencer.take()
    assert [each.producer for each in sequencer.state().producers] == [2, 3], "1 was not seen for a while"


def test_a_replay_skips_what_the_ring_would_have_skipped() -> None:
    """A clock below one which the ACK rolls back is a duplicate, also when it is read again."""
    lines = [message(10, 1, 0), message(5, 1, 10)]
    sequencer = Sequencer(ring=Ring(0))
    sequencer.push(message(4, 2, 0, producer=1))
    sequencer.take()
    for line in lines:
        sequencer.push(msgspec.structs.replace(line, begin=line.begin + 10, end=line.end + 10))
    sequencer.push(message(7, 2, 30))
    assert sequencer.feed(lines, Offset(30)) == []
    assert [each.clock for each in sequencer.take()] == [7]
