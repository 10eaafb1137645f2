"""Readers: bad frames, gaps, replays; what is committed is in test_sequencer.py."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.messages.histories import EVERY_HORIZON, WILD, Line, orderly, tame

from penstock.kernel.errors import FrameTooLarge, InvalidArgument, MalformedFrame
from penstock.kernel.ids import Clock, Offset
from penstock.messages.clock import TICK
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.message import Message, Replay
from penstock.messages.outcome import SequenceOutcome
from penstock.messages.publisher import Publisher
from penstock.messages.read_state import Horizon
from penstock.messages.reader import Anomalous, CommittedMessage, CommittedReader, OnBad, Skipped, UncommittedReader
from penstock.messages.sequencing.ring import Ring
from penstock.messages.uuid import ProducerId, Uuid, producer_id

NOON = 1_700_000_000_000_000_000
LINES = JsonLines()


def publisher(number: int = 1) -> Publisher:
    return Publisher(producer_id(number), NOON)


def line(value: int) -> bytes:
    return publisher(value).committed("j", LINES, [{"n": value}])


def numbers(messages: list[Message]) -> list[Any]:
    return [LINES.decode(message.frame).get("n") for message in messages if not message.is_ack]


def test_uncommitted_messages_come_as_they_stand_with_their_offsets() -> None:
    frames = publisher().uncommitted("j", LINES, [{"n": 1}, {"n": 2}])
    reader = UncommittedReader("j", LINES, Offset(1000))
    for at in range(len(frames)):
        reader.feed(Offset(1000 + at), frames[at : at + 1])
    found = [reader.next(), reader.next()]
    assert all(isinstance(one, Message) for one in found)
    assert [one.begin for one in found if one] == [1000, 1000 + len(frames) // 2]
    assert reader.offset == 1000 + len(frames)
    assert reader.next() is None


def test_messages_without_a_uuid_are_delivered_at_least_once() -> None:
    plain = LINES.encode({"n": 7}, None)
    reader = CommittedReader("j", LINES)
    reader.feed(Offset(0), plain + plain)
    found = reader.next()
    assert isinstance(found, CommittedMessage)
    assert numbers(found.messages) == [7, 7]
    assert not found.messages[0].is_ack


def test_a_bad_frame_is_an_error_with_journal_and_offset_behind_what_is_good() -> None:
    good = line(1)
    reader = CommittedReader("orders/part-000", LINES)
    reader.feed(Offset(0), good + b"rubbish\n" + line(2))
    found = reader.next()
    assert isinstance(found, CommittedMessage)
    assert numbers(found.messages) == [1]
    for _ in range(2):
        with pytest.raises(MalformedFrame, match=f"orders/part-000 at {len(good)}: not a JSON object") as caught:
            reader.next()
        assert caught.value.details == {"journal": "orders/part-000", "begin": len(good), "end": len(good) + 8}
    assert reader.state().offset == len(good), "nothing is passed over unnoticed"


def test_bad_frames_are_skipped_with_a_report_if_asked() -> None:
    good = line(1)
    reader = CommittedReader("j", LINES, on_bad=OnBad.SKIP)
    reader.feed(Offset(0), good + b"rubbish\n" + line(2))
    first, skipped, second = reader.next(), reader.next(), reader.next()
    assert isinstance(first, CommittedMessage)
    assert isinstance(second, CommittedMessage)
    assert isinstance(skipped, Skipped)
    assert (skipped.begin, skipped.end) == (len(good), len(good) + 8)
    assert numbers(first.messages + second.messages) == [1, 2]
    assert reader.next() is None


def test_a_gap_between_frames_is_jumped_and_one_within_a_frame_is_bad() -> None:
    one = line(1)
    reader = UncommittedReader("j", LINES, on_bad=OnBad.SKIP)
    reader.feed(Offset(100), one)
    reader.feed(Offset(1000), one[:30])
    reader.feed(Offset(2000), one)
    found = [reader.next() for _ in range(4)]
    assert [type(each) for each in found] == [Message, Skipped, Message, type(None)]
    assert found[1] == Skipped(Offset(1000), Offset(2000), "a gap in the journal cuts off a frame")


def test_a_chunk_which_was_read_before_is_refused() -> None:
    reader = UncommittedReader("j", LINES)
    reader.feed(Offset(0), b"{}\n")
    with pytest.raises(InvalidArgument, match="read before"):
        reader.feed(Offset(2), b"{}\n")


def test_a_frame_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    reader = UncommittedReader("j", LINES, frame_bytes_max=100)
    reader.feed(Offset(0), bytes(60))
    with pytest.raises(FrameTooLarge, match="j at 0: a message of more than 100 bytes"):
        reader.feed(Offset(60), bytes(60))


def spread_transaction() -> tuple[bytes, bytes]:
    """A pending part larger than the ring, and its ACK."""
    source = publisher()
    return source.uncommitted("j", LINES, [{"n": n} for n in range(4)]), source.ack_intents()["j"]


def test_a_replay_asks_for_bytes_until_it_has_its_range() -> None:
    pending, ack = spread_transaction()
    reader = CommittedReader("j", LINES, ring=Ring(length_max=1))
    reader.feed(Offset(0), pending + ack)
    last = 3 * len(pending) // 4
    assert reader.next() == Replay(Offset(0), Offset(last))
    reader.replay(Offset(0), pending[:10])
    assert reader.next() == Replay(Offset(10), Offset(last)), "half a frame says nothing"
    reader.replay(Offset(10), pending[10:])
    found = [reader.next(), reader.next()]
    assert [one.is_whole for one in found if isinstance(one, CommittedMessage)] == [False, True]
    assert [number for one in found if isinstance(one, CommittedMessage) for number in numbers(one.messages)] == [
        0,
        1,
        2,
        3,
    ]
    with pytest.raises(InvalidArgument, match="no replay"):
        reader.replay(Offset(0), b"")


def test_a_replay_of_bytes_which_are_gone_is_an_error_or_a_report() -> None:
    pending, ack = spread_transaction()
    size = len(pending) // 4
    for on_bad in OnBad:
        reader = CommittedReader("j", LINES, ring=Ring(length_max=1), on_bad=on_bad)
        reader.feed(Offset(0), pending + ack)
        assert isinstance(reader.next(), Replay)
        if on_bad is OnBad.FAIL:
            with pytest.raises(MalformedFrame, match="j at 0: gone"):
                reader.replay(Offset(size), pending[size:])
            continue
        reader.replay(Offset(size), pending[size:])
        skipped, first, rest = reader.next(), reader.next(), reader.next()
        assert isinstance(skipped, Skipped)
        assert (skipped.begin, skipped.end) == (0, size)
        assert isinstance(first, CommittedMessage)
        assert isinstance(rest, CommittedMessage)
        assert numbers(first.messages + rest.messages) == [1, 2, 3]


def test_what_a_producer_must_not_do_is_reported() -> None:
    source = publisher()
    old = source.uncommitted("j", LINES, [{"n": 1}]) + (ack := source.ack_intents()["j"])
    new = source.uncommitted("j", LINES, [{"n": 2}]) + source.ack_intents()["j"]
    reader = CommittedReader("j", LINES)
    reader.feed(Offset(0), old + new + ack)
    assert isinstance(reader.next(), CommittedMessage)
    found = reader.next()
    assert isinstance(found, Anomalous)
    assert found.outcome is SequenceOutcome.ACK_DEEP_ROLLBACK
    assert found.message.begin == len(old + new)


class OneByOne(JsonLines):
    """JSON lines of which each is looked at by itself."""

    def uuids(self, frames: list[bytes]) -> None:
        return None


def json_journal(history: list[Line], tail: bytes) -> bytes:
    lines = []
    for number, each in enumerate(history):
        uuid = Uuid(ProducerId(each.producer + 1), Clock(each.clock * TICK), each.flags) if each.clock else None
        lines.append(LINES.encode({"n": number, "pad": "." * each.size}, uuid))
    return b"".join(lines) + tail


def read_all(lines: JsonLines, journal: bytes, cuts: list[int], horizon: Horizon, limit: int) -> list[Any]:
    """Return what a reader finds, messages one by one, and its state after each chunk."""
    reader = CommittedReader(
        "j", lines, ring=Ring(6, 600), horizon=Horizon(horizon.clock * TICK, horizon.bytes), on_bad=OnBad.SKIP
    )
    found: list[Any] = []
    for begin, end in itertools.pairwise([0, *sorted(cuts), len(journal)]):
        reader.feed(Offset(begin), journal[begin:end])
        while (one := reader.next(limit)) is not None:
            if isinstance(one, Replay):
                reader.replay(one.begin, journal[one.begin : one.end])
            elif isinstance(one, CommittedMessage):
                assert len(one.messages) < limit + len(journal)
                found += one.messages
            else:
                found.append(one)
        reader.sequencer.check()
        found.append(reader.state())
    return found


@pytest.mark.hypothesis
@given(st.one_of(WILD, tame(), orderly()), EVERY_HORIZON, st.integers(1, 5), st.data())
def test_runs_give_what_messages_one_by_one_give(
    history: list[Line], horizon: Horizon, limit: int, data: st.DataObject
) -> None:
    journal = json_journal(history, data.draw(st.sampled_from([b"", b"rubbish\n", b'{"n":-1}\n'])))
    cuts = data.draw(st.lists(st.integers(0, len(journal)), max_size=3))
    assert read_all(LINES, journal, cuts, horizon, limit) == read_all(OneByOne(), journal, cuts, horizon, limit)
