"""A shard, event by event. What holds under every fault is in tests/sim/workloads/test_exactly_once.py."""

from typing import Any, TypeVar

import pytest

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.consumers.core.effects import (
    AppendIntent,
    CommitShard,
    Consume,
    Consumed,
    Failed,
    Finalized,
    IntentAppended,
    Noticed,
    Publication,
    ReadSource,
    Restore,
    Restored,
    Seal,
    ShardCommitted,
    ShardProgress,
    SourceChunk,
)
from penstock.consumers.core.shard import Shard, ShardSpec
from penstock.consumers.core.stat import Stat, StatResult
from penstock.kernel.effects import Effect, Event, Reply, Requested, SetTimer, Stop, TimerFired
from penstock.kernel.ids import SECOND, Instant, Offset, RequestId
from penstock.messages.clock import to_unix_ns
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.publisher import Publisher
from penstock.messages.read_state import ReadState
from penstock.messages.reader import CommittedMessage as Found
from penstock.messages.reader import CommittedReader, OnBad
from penstock.messages.uuid import producer_id

NOON = 1_700_000_000_000_000_000
LINES = JsonLines()
SPEC = ShardSpec("s", {"in": LINES})
E = TypeVar("E", bound=Effect)


class Stage:
    """A shard, a source journal, and everything the shard asked for."""

    def __init__(self, spec: ShardSpec = SPEC, checkpoint: Checkpoint | None = None) -> None:
        self.shard = Shard(spec, producer_id(9), unix_ns_at_zero=NOON)
        self.now = 0
        self.effects: list[Effect] = []
        self.producer = Publisher(producer_id(1), NOON)
        self.at = 0
        assert self.shard.start() == [Restore()]
        self.tell(Restored(checkpoint or Checkpoint()))

    def tell(self, event: Event) -> list[Effect]:
        """Return the shard's effects of one event, and nothing from before."""
        self.effects = self.shard.step(event, Instant(self.now))
        self.shard.check()
        return self.effects

    def arrive(self, data: bytes) -> list[Effect]:
        begin, self.at = self.at, self.at + len(data)
        return self.tell(SourceChunk("in", Offset(begin), data))

    def message(self, *numbers: int) -> list[Effect]:
        return self.arrive(self.producer.committed("in", LINES, [{"n": number} for number in numbers]))

    def one(self, kind: type[E]) -> E:
        (found,) = [effect for effect in self.effects if isinstance(effect, kind)]
        return found

    def kinds(self) -> list[str]:
        return [type(effect).__name__ for effect in self.effects]

    def publish(self, journal: str, *numbers: int) -> tuple[Publication, ...]:
        return (Publication(journal, LINES, tuple(LINES.prepare_all([{"n": number} for number in numbers]))),)

    def run_to_commit(self, number: int, *publications: Publication) -> int:
        """A transaction of one message which published this, sealed and committing; its number."""
        self.message(number)
        self.tell(Consumed(publications))
        appends = [effect.number for effect in self.effects if isinstance(effect, AppendIntent)]
        self.tell(Finalized())
        for append in appends:
            self.tell(IntentAppended(append, Offset(500)))
        return self.one(CommitShard).txn


def numbers(effect: Consume) -> list[Any]:
    return [LINES.decode(message.frame)["n"] for message in effect.messages]


def test_a_transaction_from_its_message_to_its_ack() -> None:
    stage = Stage()
    assert stage.effects == [ReadSource("in", Offset(0)), ShardProgress({"in": Offset(0)})]
    stage.message(1, 2)
    assert stage.kinds() == ["SetTimer", "Consume"]
    assert numbers(stage.one(Consume)) == [1, 2]
    stage.tell(Consumed(stage.publish("out", 10)))
    assert stage.kinds() == ["AppendIntent", "ReadSource", "Finalize"]
    pending = stage.one(AppendIntent)
    stage.tell(Finalized())
    seal = stage.one(Seal)
    assert seal.checkpoint.sources["in"].offset == stage.at
    assert list(seal.checkpoint.ack_intents) == ["out"]
    assert "CommitShard" not in stage.kinds(), "its message is not in the journal yet"
    stage.tell(IntentAppended(pending.number, Offset(500)))
    assert stage.effects == [CommitShard(1)]
    stage.tell(ShardCommitted(1))
    ack = stage.one(AppendIntent)
    assert (ack.journal, ack.data) == ("out", seal.checkpoint.ack_intents["out"])
    stage.tell(IntentAppended(ack.number, Offset(500)))
    assert stage.effects == [ShardProgress({"in": Offset(stage.at)})]
    reader = CommittedReader("out", LINES)
    reader.feed(Offset(0), pending.data + ack.data)
    found = reader.next()
    assert isinstance(found, Found)
    assert [message.is_ack for message in found.messages] == [False, True]


def test_restored_intents_are_appended_first_and_nothing_commits_before_they_are_in() -> None:
    stage = Stage(checkpoint=Checkpoint({}, {"out": b"the ACK\n"}))
    ack = stage.one(AppendIntent)
    assert (ack.journal, ack.data) == ("out", b"the ACK\n")
    stage.message(1)
    stage.tell(Consumed())
    assert "Finalize" not in stage.kinds()
    stage.tell(IntentAppended(ack.number, Offset(500)))
    assert stage.kinds() == ["Finalize"]


def test_the_next_transaction_runs_while_the_last_commits_but_does_not_overtake_it() -> None:
    stage = Stage()
    first = stage.run_to_commit(1)
    stage.message(2)
    assert numbers(stage.one(Consume)) == [2]
    stage.tell(Consumed())
    assert stage.kinds() == ["ReadSource"], "it may not end yet"
    stage.tell(ShardCommitted(first))
    assert stage.kinds() == ["ShardProgress", "Finalize"]


def test_what_is_newer_waits_behind_the_ack_of_its_journal() -> None:
    stage = Stage()
    first = stage.run_to_commit(1, *stage.publish("out", 10))
    stage.message(2)
    stage.tell(Consumed((*stage.publish("out", 20), *stage.publish("other", 21))))
    assert [effect.journal for effect in stage.effects if isinstance(effect, AppendIntent)] == ["other"]
    stage.tell(ShardCommitted(first))
    appends = [effect for effect in stage.effects if isinstance(effect, AppendIntent)]
    assert [append.journal for append in appends] == ["out", "out"]
    assert b'"n":20' in appends[1].data
    assert b'"n"' not in appends[0].data, "the ACK goes first"


def test_too_much_held_back_is_back_pressure() -> None:
    stage = Stage(ShardSpec("s", {"in": LINES}, held_bytes_max=10))
    first = stage.run_to_commit(1, *stage.publish("out", 10))
    stage.message(2)
    stage.tell(Consumed(stage.publish("out", 20)))
    assert stage.effects == [], "nothing more is read"
    stage.tell(ShardCommitted(first))
    assert "ReadSource" in stage.kinds()


def test_a_transaction_is_not_shorter_than_it_should_be() -> None:
    stage = Stage(ShardSpec("s", {"in": LINES}, min_txn_ns=100))
    stage.now = 5
    stage.message(1)
    assert stage.one(SetTimer).at == 105
    stage.tell(Consumed())
    assert "Finalize" not in stage.kinds()
    stage.now = 105
    stage.tell(TimerFired("txn"))
    assert "Finalize" in stage.kinds()


def test_at_its_longest_a_transaction_takes_no_more_even_if_the_one_before_still_commits() -> None:
    stage = Stage(ShardSpec("s", {"in": LINES}, max_txn_ns=100))
    first = stage.run_to_commit(1)
    stage.message(2)
    stage.tell(Consumed())
    stage.now = 100
    stage.message(3)
    assert stage.effects == [], "stalled"
    stage.tell(ShardCommitted(first))
    assert stage.kinds() == ["ShardProgress", "Finalize"]
    stage.tell(Finalized())
    assert numbers(stage.one(Consume)) == [3]


def test_a_transaction_waits_for_an_ack_which_may_come_soon_if_asked_to() -> None:
    for waits in (True, False):
        stage = Stage(ShardSpec("s", {"in": LINES}, waits_for_ack=waits, max_txn_ns=100))
        other = Publisher(producer_id(2), NOON)
        stage.arrive(stage.producer.committed("in", LINES, [{"n": 1}]) + other.uncommitted("in", LINES, [{"n": 2}]))
        stage.tell(Consumed())
        assert ("Finalize" in stage.kinds()) != waits
        if waits:
            assert stage.one(SetTimer).at == 100
            stage.arrive(other.ack_intents()["in"])
            assert numbers(stage.one(Consume)) == [2]


def test_a_transaction_of_the_source_is_consumed_in_one_of_the_shard() -> None:
    """Also when it is read again in parts, and longer than a transaction should be."""
    stage = Stage(ShardSpec("s", {"in": LINES}, ring_length=0, max_txn_ns=1))
    pending = stage.producer.uncommitted("in", LINES, [{"n": 1}, {"n": 2}])
    ack = stage.producer.ack_intents()["in"]
    half = len(pending) // 2
    stage.arrive(pending + ack)
    assert stage.one(ReadSource) == ReadSource("in", Offset(0), Offset(len(pending)))
    stage.tell(SourceChunk("in", Offset(0), pending[:half]))
    assert numbers(stage.one(Consume)) == [1]
    stage.now = 50
    stage.tell(Consumed())
    assert stage.effects == [ReadSource("in", Offset(half), Offset(len(pending)))], "it may not end here"
    stage.tell(SourceChunk("in", Offset(half), pending[half:]))
    assert numbers(stage.one(Consume)) == [2]
    stage.tell(Consumed())
    assert "Finalize" in stage.kinds(), "the ACK was all that was left of it"
    stage.tell(Finalized())
    assert stage.one(Seal).checkpoint.sources["in"].offset == stage.at


def test_duplicates_alone_are_progress_without_a_transaction() -> None:
    stage = Stage()
    frames = stage.producer.committed("in", LINES, [{"n": 1}])
    stage.arrive(frames)
    stage.tell(Consumed())
    stage.tell(Finalized())
    stage.tell(ShardCommitted(1))
    stage.arrive(frames)
    assert stage.effects == [ReadSource("in", Offset(2 * len(frames))), ShardProgress({"in": Offset(2 * len(frames))})]


def test_a_failure_stops_the_shard_for_good() -> None:
    stage = Stage()
    assert stage.tell(Failed("fenced")) == [Stop("fenced")]
    assert stage.message(1) == []


def test_a_bad_frame_stops_it_or_is_noticed() -> None:
    stage = Stage()
    stage.arrive(b"rubbish\n")
    assert stage.one(Stop).reason.startswith("in at 0: ")
    stage = Stage(ShardSpec("s", {"in": LINES}, on_bad=OnBad.SKIP))
    stage.arrive(b"rubbish\n")
    assert stage.one(Noticed).journal == "in"


def test_a_new_shard_begins_where_it_is_told() -> None:
    stage = Stage(ShardSpec("s", {"in": LINES}, min_offsets={"in": Offset(700)}))
    assert stage.one(ReadSource) == ReadSource("in", Offset(700))


def test_events_which_nobody_asked_for_are_our_own_defects() -> None:
    for event in (
        Consumed(),
        Finalized(),
        IntentAppended(9, Offset(500)),
        ShardCommitted(1),
        SourceChunk("in", Offset(0), b""),
    ):
        stage = Stage()
        if isinstance(event, SourceChunk):
            stage.message(1)
        with pytest.raises(AssertionError):
            stage.tell(event)


def test_who_wrote_can_wait_until_it_has_taken_effect() -> None:
    stage = Stage()
    stage.message(1)
    assert stage.tell(Requested(RequestId(5), Stat({"in": Offset(stage.at)}))) == []
    stage.tell(Consumed(stage.publish("out", 10)))
    pending = stage.one(AppendIntent)
    stage.tell(Finalized())
    stage.tell(IntentAppended(pending.number, Offset(60)))
    stage.tell(ShardCommitted(1))
    assert "Reply" not in stage.kinds(), "not before it is acknowledged downstream"
    stage.tell(IntentAppended(stage.one(AppendIntent).number, Offset(90)))
    reply = stage.one(Reply)
    assert (reply.request, reply.result) == (5, StatResult({"in": Offset(stage.at)}, {"out": Offset(90)}))


def test_who_waits_hears_of_a_stop() -> None:
    stage = Stage()
    stage.tell(Requested(RequestId(5), Stat({"in": Offset(9)})))
    stage.tell(Failed("fenced"))
    assert stage.kinds() == ["Reply", "Stop"]


def test_the_state_of_a_source_that_is_not_read_now_stays_in_every_checkpoint() -> None:
    state = ReadState(Offset(900))
    kept = Checkpoint({"in": ReadState(Offset(0)), "gone": state})
    stage = Stage(checkpoint=kept)
    assert stage.one(ShardProgress).read_through == {"in": Offset(0)}
    for number in (1, 2):
        txn = stage.run_to_commit(number)
        assert stage.shard.prior is not None
        kept = stage.shard.prior.checkpoint
        assert kept.sources["gone"] == state
        stage.tell(ShardCommitted(txn))
        assert stage.one(ShardProgress).read_through == {"in": Offset(stage.at)}
    again = Stage(ShardSpec("s", {"gone": LINES}), kept)
    assert again.one(ReadSource) == ReadSource("gone", Offset(900))
    assert again.shard.left == {"in": kept.sources["in"]}


def test_a_message_carries_the_time_at_which_it_is_published() -> None:
    stage = Stage()
    stage.message(1)
    for second in (1, 5):
        stage.now = second * SECOND
        stage.tell(Consumed(stage.publish("out", second)) if second == 1 else Finalized(stage.publish("out", second)))
        uuid = LINES.uuid(stage.one(AppendIntent).data)
        assert uuid is not None
        assert 0 <= to_unix_ns(uuid.clock) - NOON - stage.now < 10_000, "a clock ticks once for each message"
