import pytest

from penstock.kernel.ids import Offset
from penstock.messages.clock import from_unix_ns
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.message import Message
from penstock.messages.publisher import Publisher
from penstock.messages.reader import CommittedMessage, CommittedReader, UncommittedReader
from penstock.messages.uuid import TxnFlag, producer_id

NOON = 1_700_000_000_000_000_000
LINES = JsonLines(dict[str, int])


def committed(journal: bytes) -> list[dict[str, int]]:
    reader = CommittedReader("j", LINES)
    reader.feed(Offset(0), journal)
    found = []
    while (one := reader.next()) is not None:
        assert isinstance(one, CommittedMessage)
        found += [LINES.decode(message.frame) for message in one.messages if not message.is_ack]
    return found


def values(*numbers: int) -> list[dict[str, int]]:
    return [{"n": number} for number in numbers]


def test_committed_messages_are_read_at_once_and_once() -> None:
    frames = Publisher(producer_id(1), NOON).committed("j", LINES, values(1, 2))
    assert committed(frames + frames) == values(1, 2)


def test_uncommitted_messages_wait_for_their_ack_intent_which_may_be_repeated() -> None:
    publisher = Publisher(producer_id(1), NOON)
    frames = publisher.uncommitted("j", LINES, values(1, 2))
    assert committed(frames) == []
    intents = publisher.ack_intents()
    assert committed(frames + intents["j"]) == values(1, 2)
    assert committed(frames + frames + intents["j"] * 2 + frames + intents["j"]) == values(1, 2)


def test_the_intents_before_roll_back_what_is_pending() -> None:
    publisher = Publisher(producer_id(1), NOON)
    first = publisher.uncommitted("j", LINES, values(1))
    intent = publisher.ack_intents()["j"]
    abandoned = publisher.uncommitted("j", LINES, values(2))
    later = publisher.uncommitted("j", LINES, values(3))
    assert committed(first + intent + abandoned + intent + later + publisher.ack_intents()["j"]) == values(1, 3)


def test_there_is_one_intent_for_each_journal_with_something_pending() -> None:
    publisher = Publisher(producer_id(1), NOON)
    for journal in ("b", "a", "b"):
        publisher.uncommitted(journal, LINES, values(1))
    publisher.uncommitted("c", LINES, [])
    assert publisher.pending == ("a", "b")
    assert list(publisher.ack_intents()) == ["a", "b"]
    assert publisher.ack_intents() == {}


def test_clocks_rise_over_all_journals_and_follow_the_world() -> None:
    publisher = Publisher(producer_id(1), NOON)
    frames = publisher.committed("a", LINES, values(1, 2))
    publisher.update(NOON + 10**9)
    frames += publisher.committed("b", LINES, values(3))
    publisher.update(NOON)
    frames += publisher.uncommitted("a", LINES, values(4)) + publisher.ack_intents()["a"]
    reader = UncommittedReader("j", LINES)
    reader.feed(Offset(0), frames)
    found = []
    while (one := reader.next()) is not None:
        assert isinstance(one, Message)
        found.append(one)
    clocks = [message.clock for message in found]
    assert clocks == sorted(set(clocks))
    assert clocks[2] > from_unix_ns(NOON + 10**9)
    assert [message.flags for message in found] == [0, 0, 0, TxnFlag.CONTINUE_TXN, TxnFlag.ACK_TXN]
    assert {message.producer for message in found} == {producer_id(1)}


def test_a_lone_message_may_not_discard_what_is_pending() -> None:
    publisher = Publisher(producer_id(1), NOON)
    publisher.uncommitted("j", LINES, values(1))
    with pytest.raises(AssertionError, match="pending"):
        publisher.committed("j", LINES, values(2))
