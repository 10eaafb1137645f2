from tests.quorum.core.cluster import entry_id
from tests.quorum.core.single import E1, E2, E3, I1, A, B, Single, txn

from penstock.kernel.effects import Effect, Send, TimerFired
from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Offset
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.replication import Link, Replication
from penstock.quorum.records.effects import LogRead, ReadLog, ReadSnapshot, SnapshotRead, SnapshotTaken, TakeSnapshot
from penstock.quorum.records.entry import Barrier, Entry
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    SnapshotRequest,
    SnapshotResponse,
    TruncateRequest,
    TruncateResponse,
)
from penstock.quorum.records.state import NodeState

LOG: tuple[Entry, ...] = (Barrier(E1), txn("x", 1), Barrier(E2), txn("y", 2, 2))


def leading(*entries: Entry, config: NodeConfig | None = None) -> Single:
    """A leads epoch 3 with this log, and knows of nobody yet."""
    single = Single(entries, state=NodeState(A, E2, is_formatted=True), config=config)
    single.lead(3)
    return single


def replication_of(single: Single) -> Replication:
    leader = single.node.leader
    assert leader is not None
    return leader.replication


def link_to_b(single: Single) -> Link:
    return replication_of(single).links[B]


def follow(single: Single, head: EntryId) -> list[Effect]:
    replication_of(single).follow(B, head)
    return single.node.replica.take_effects()


def messages(effects: list[Effect]) -> list[object]:
    return [effect.message for effect in effects if isinstance(effect, Send) and effect.to == "B"]


def behind(single: Single, epoch: int, offset: int, stream: int) -> list[object]:
    head = entry_id(epoch, offset)
    return messages(single.hear("B", AddEntryResponse(E3, I1, head, 0, stream, is_behind=True)))


def test_a_head_we_hold_is_followed_at_once() -> None:
    single = leading(*LOG)
    add = AddEntryRequest(E3, I1, entry_id(1, 2), (*LOG[2:], Barrier(E3)))
    assert messages(follow(single, entry_id(1, 2))) == [add]
    assert (link_to_b(single).cursor.last_pushed, link_to_b(single).cursor.last_confirmed) == (5, 2)


def test_a_head_we_do_not_hold_is_truncated_until_we_do() -> None:
    single = leading(Barrier(E1), Barrier(E2))
    assert messages(follow(single, entry_id(2, 9))) == [TruncateRequest(E3, I1, entry_id(2, 2), entry_id(2, 9))]
    again = messages(single.hear("B", TruncateResponse(E3, I1, entry_id(1, 2))))
    assert again == [TruncateRequest(E3, I1, entry_id(1, 1), entry_id(1, 2))], "one round was not enough"
    agreed = messages(single.hear("B", TruncateResponse(E3, I1, entry_id(1, 1))))
    assert agreed == [AddEntryRequest(E3, I1, entry_id(1, 1), (Barrier(E2), Barrier(E3)), Offset(0), 0, 2)]
    assert messages(single.hear("B", TruncateResponse(E3, I1, entry_id(1, 1)))) == [], "a duplicate"


def test_who_waits_for_a_truncation_acknowledges_nothing() -> None:
    single = leading(*LOG)
    follow(single, entry_id(2, 9))
    assert not replication_of(single).on_add_entry_response(B, AddEntryResponse(E3, I1, entry_id(2, 4)))
    assert link_to_b(single).cursor.last_confirmed == 0


def test_heartbeats_repeat_what_may_have_been_lost() -> None:
    single = leading(*LOG)
    follow(single, entry_id(2, 9))
    assert messages(single.step(TimerFired("heartbeat"))) == [TruncateRequest(E3, I1, entry_id(2, 4), entry_id(2, 9))]
    single.hear("B", TruncateResponse(E3, I1, entry_id(2, 4)))
    single.step(TimerFired("heartbeat"))
    heartbeat = AddEntryRequest(E3, I1, entry_id(3, 5), (), Offset(0), 0, link_to_b(single).stream)
    assert messages(single.last) == [heartbeat]


def test_a_follower_which_is_behind_is_rewound_once() -> None:
    single = leading(*LOG)
    follow(single, entry_id(1, 2))
    assert behind(single, 1, 2, 0) == [
        AddEntryRequest(E3, I1, entry_id(1, 2), (*LOG[2:], Barrier(E3)), Offset(0), 0, 1)
    ]
    assert behind(single, 1, 2, 0) == [], "the complaint is about an older stream"


def test_what_was_confirmed_is_not_sent_again() -> None:
    single = leading(*LOG)
    follow(single, entry_id(1, 2))
    single.hear("B", AddEntryResponse(E3, I1, entry_id(2, 4)))
    assert behind(single, 1, 2, 0) == [AddEntryRequest(E3, I1, entry_id(2, 4), (Barrier(E3),), Offset(0), 0, 1)]


def test_a_follower_with_something_else_in_its_log_is_truncated() -> None:
    single = leading(*LOG)
    follow(single, entry_id(1, 2))
    assert behind(single, 1, 9, 0) == [TruncateRequest(E3, I1, entry_id(1, 2), entry_id(1, 9))]


def test_the_window_bounds_what_is_under_way() -> None:
    config = NodeConfig(push_bytes_max=200, push_window_bytes=300)
    single = leading(config=config)
    follow(single, NO_ENTRY)
    single.append(*(f"{value:036}" for value in range(10)))
    assert link_to_b(single).cursor.last_pushed == 5, "messages of 64 and 200 bytes, and one more as 264 are below 300"
    single.hear("B", AddEntryResponse(E3, I1, entry_id(3, 3)))
    assert link_to_b(single).cursor.last_pushed == 7
    assert link_to_b(single).in_flight_bytes == 400


def test_entries_no_longer_in_memory_are_read_back() -> None:
    config = NodeConfig(tail_bytes_max=100, push_bytes_max=150)
    entries: tuple[Entry, ...] = (Barrier(E1), *(txn("z" * 36, seq) for seq in range(9)))
    single = Single(entries, state=NodeState(A, E1, is_formatted=True), config=config)
    single.lead(2)
    single.sync()
    effects = follow(single, entry_id(1, 2))
    read = ReadLog("push B#i1", Offset(3), Offset(11), 150)
    assert [effect for effect in effects if isinstance(effect, ReadLog)] == [read]
    assert follow_again(single) == [], "one read at a time"
    sent = messages(single.step(LogRead("push B#i1", Offset(3), entries[2:3])))
    assert sent == [AddEntryRequest(E2, I1, entry_id(1, 2), entries[2:3], Offset(0))]
    assert ReadLog("push B#i1", Offset(4), Offset(11), 150) in single.last


def follow_again(single: Single) -> list[Effect]:
    replication_of(single).push_all()
    return single.node.replica.take_effects()


def with_snapshot() -> Single:
    """A leader whose log starts behind a snapshot at 3."""
    single = Single(config=NodeConfig(snapshot_entries=3, retain_entries=0, snapshot_chunk_bytes=4))
    single.lead_in_peace()
    single.append("x")
    single.sync()
    single.ack("B", 1, 3)
    single.apply()
    (take,) = [effect for effect in single.last if isinstance(effect, TakeSnapshot)]
    single.step(SnapshotTaken(take.snapshot))
    single.save()
    assert single.node.log.base == entry_id(1, 3)
    return single


def test_below_the_first_retained_entry_there_is_only_the_snapshot() -> None:
    single = with_snapshot()
    snapshot = single.node.replica.snapshot
    assert follow(single, entry_id(1, 2)) == [ReadSnapshot(B, snapshot.head, 0, 4)]
    first = SnapshotRead(B, snapshot.head, 0, b"abcd", is_last=False)
    assert messages(single.step(first)) == [SnapshotRequest(E1, I1, snapshot, 0, b"abcd", is_last=False)]
    assert single.hear("B", SnapshotResponse(E1, I1, snapshot.head, 4)) == [ReadSnapshot(B, snapshot.head, 4, 4)]
    assert single.hear("B", SnapshotResponse(E1, I1, snapshot.head, 4)) == [], "a duplicate"
    last = SnapshotRead(B, snapshot.head, 4, b"e", is_last=True)
    assert messages(single.step(last)) == [SnapshotRequest(E1, I1, snapshot, 4, b"e", is_last=True)]
    follows = messages(single.hear("B", SnapshotResponse(E1, I1, snapshot.head, 5, snapshot.head)))
    assert [type(message) for message in follows] == [AddEntryRequest]
    assert link_to_b(single).cursor.last_confirmed == 3


def test_a_snapshot_which_is_gone_is_replaced_by_the_newest() -> None:
    single = with_snapshot()
    snapshot = single.node.replica.snapshot
    follow(single, entry_id(1, 2))
    gone = SnapshotRead(B, snapshot.head, 0, None, is_last=False)
    assert single.step(gone) == [ReadSnapshot(B, snapshot.head, 0, 4)]


def test_a_follower_at_the_snapshots_head_needs_no_snapshot() -> None:
    single = with_snapshot()
    assert [type(message) for message in messages(follow(single, entry_id(1, 3)))] == [AddEntryRequest]


def test_a_bump_lets_those_go_who_do_not_follow_yet() -> None:
    single = leading(*LOG)
    follow(single, entry_id(2, 9))
    single.node.replica.epoch = Epoch(4)
    replication_of(single).bump()
    assert replication_of(single).links == {}
