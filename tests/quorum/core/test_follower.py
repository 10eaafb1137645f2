import msgspec
import pytest
from tests.quorum.core.cluster import entry_id
from tests.quorum.core.single import E1, E2, E3, I1, A, Single, txn

from penstock.kernel.effects import Effect, Persist, SaveState, Send, Stop, TruncateLog
from penstock.kernel.ids import EntryId, Epoch, Lsn, NodeId, Offset
from penstock.quorum.records.effects import (
    Apply,
    KeepLost,
    RestoreSnapshot,
    SnapshotRestored,
    SnapshotWritten,
    WriteSnapshot,
)
from penstock.quorum.records.entry import Barrier, Confirm, Entry, Rollback
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    FenceRequest,
    SnapshotRequest,
    SnapshotResponse,
    TruncateRequest,
    TruncateResponse,
)
from penstock.quorum.records.state import NodeState, SnapshotMeta

LEADER = NodeId("B")
LOG: tuple[Entry, ...] = (Barrier(E1), txn("x", 1), txn("y", 2))


def follower(*entries: Entry, epoch: int = 2) -> Single:
    """A node with this log, fenced into an epoch which B leads."""
    single = Single(entries, state=NodeState(A, E1, is_formatted=True))
    single.hear("op", FenceRequest(Epoch(epoch), I1))
    single.save()
    return single


def ack(epoch: int, offset: int, *, of: Epoch = E2, is_behind: bool = False, round_: int = 0) -> Send:
    return Send(LEADER, AddEntryResponse(of, I1, entry_id(epoch, offset), round_, 0, is_behind))


def add(previous: tuple[int, int], *entries: Entry, round_: int = 0) -> AddEntryRequest:
    return AddEntryRequest(E2, I1, entry_id(*previous), entries, Offset(0), round_)


def test_entries_are_acknowledged_when_they_are_durable() -> None:
    single = follower(*LOG)
    assert single.hear("B", add((1, 3), Barrier(E2))) == [Persist(Lsn(4), (Barrier(E2),))]
    assert single.hear("B", add((2, 4), txn("z", 3, 2))) == [Persist(Lsn(5), (txn("z", 3, 2),))]
    assert single.sync() == [ack(2, 5)], "one acknowledgement for both"


def test_what_is_held_already_is_acknowledged_again_and_the_rest_appended() -> None:
    single = follower(*LOG)
    assert single.hear("B", add((1, 1), LOG[1], LOG[2])) == [ack(1, 3)]
    assert single.hear("B", add((1, 2), LOG[2], Barrier(E2))) == [Persist(Lsn(4), (Barrier(E2),))]


@pytest.mark.parametrize(
    "request_",
    [
        add((1, 4), Barrier(E2)),
        add((0, 3), Barrier(E2)),
        add((1, 2), Barrier(E2)),
        add((1, 4)),
    ],
    ids=["a hole", "another id there", "something else behind it", "a heartbeat beyond the head"],
)
def test_anything_else_is_answered_with_the_durable_head(request_: AddEntryRequest) -> None:
    single = follower(*LOG)
    assert single.hear("B", request_) == [ack(1, 3, is_behind=True)]
    assert single.node.log.head == entry_id(1, 3)


def test_a_heartbeat_is_answered_at_once_with_its_round() -> None:
    single = follower(*LOG)
    assert single.hear("B", add((1, 3), round_=4)) == [ack(1, 3, round_=4)]
    assert single.hear("B", add((1, 3), Barrier(E2), round_=5)) == [
        ack(1, 3, round_=5),
        Persist(Lsn(4), (Barrier(E2),)),
    ], "a new round does not wait for the disk"


def test_a_follower_applies_by_confirms_which_are_durable() -> None:
    single = follower(*LOG)
    single.hear("B", add((1, 3), Barrier(E2)))
    single.sync()
    assert not any(isinstance(effect, Apply) for effect in single.last)
    confirm = Confirm(E2, Offset(4))
    single.hear("B", msgspec.structs.replace(add((2, 4), confirm), commit=Offset(4)))
    assert single.sync() == [ack(2, 5), Apply(Offset(1), (*LOG, Barrier(E2)))]


def test_doomed_transactions_are_named_to_the_state_machine() -> None:
    single = follower(Barrier(E1), txn("x", 1), Rollback(E1, Offset(2)))
    single.hear("B", add((1, 3), Barrier(E2), Confirm(E2, Offset(4))))
    (apply,) = [effect for effect in single.sync() if isinstance(effect, Apply)]
    assert apply.doomed == (2,)


# truncation


def truncated(single: Single, epoch: int, offset: int, head: EntryId | None = None) -> list[Effect]:
    """By a request which is meant for this log, or for one with another head."""
    head = single.node.replica.log.head if head is None else head
    return single.hear("B", TruncateRequest(E2, I1, entry_id(epoch, offset), head))


def test_truncate_drops_what_the_leader_does_not_have_and_keeps_it_aside() -> None:
    single = follower(*LOG)
    assert truncated(single, 1, 1) == [
        KeepLost(Offset(2), Offset(3), E2),
        Send(LEADER, TruncateResponse(E2, I1, entry_id(1, 1))),
        TruncateLog(Lsn(1)),
    ]
    assert truncated(single, 1, 1) == [Send(LEADER, TruncateResponse(E2, I1, entry_id(1, 1)))], "a duplicate"


def test_truncate_cuts_by_epoch_and_by_offset() -> None:
    single = follower(Barrier(E1), txn("x", 1), Barrier(E2), txn("y", 2, 2), epoch=3)
    effects = single.hear("B", TruncateRequest(E3, I1, entry_id(1, 9), entry_id(2, 4)))
    assert Send(LEADER, TruncateResponse(E3, I1, entry_id(1, 2))) in effects


def test_confirmed_is_saved_before_the_confirm_is_truncated() -> None:
    single = follower(Barrier(E1), txn("x", 1), Confirm(E1, Offset(2)), txn("y", 2))
    single.node.replica.saved = NodeState(A, E2, is_formatted=True)  # as if nothing had been saved since
    effects = truncated(single, 1, 2)
    assert effects[-2:] == [
        SaveState(NodeState(A, E2, Offset(2), is_formatted=True)),
        TruncateLog(Lsn(2)),
    ]


def test_truncate_below_confirmed_is_fatal() -> None:
    single = follower(Barrier(E1), txn("x", 1), Confirm(E1, Offset(2)))
    (stop,) = truncated(single, 1, 1)
    assert isinstance(stop, Stop)
    assert "below the committed entry" in stop.reason


def test_truncate_waits_until_nothing_is_under_way_to_the_disk() -> None:
    single = follower(*LOG)
    single.hear("B", add((1, 3), txn("z", 3)))
    assert truncated(single, 1, 1) == []
    single.sync()
    assert truncated(single, 1, 1)[-1] == TruncateLog(Lsn(1))


def test_entries_which_this_leader_sent_are_never_truncated() -> None:
    """A late duplicate, as in seed 35065313: they are of an epoch before its own, and were acknowledged."""
    single = follower(*LOG)
    truncated(single, 1, 1)
    single.hear("B", add((1, 1), txn("z", 2)))
    single.sync()
    late = truncated(single, 1, 1, entry_id(1, 3))
    assert late == [Send(LEADER, TruncateResponse(E2, I1, entry_id(1, 2)))]


def test_entries_of_this_epoch_are_never_truncated() -> None:
    """A late duplicate: the log is a prefix of the leader's by now."""
    single = follower(*LOG)
    single.hear("B", add((1, 3), Barrier(E2)))
    single.sync()
    late = truncated(single, 1, 1, entry_id(1, 3))
    assert late == [Send(LEADER, TruncateResponse(E2, I1, entry_id(2, 4)))]


# snapshots

SNAPSHOT = SnapshotMeta(entry_id(2, 9), ((E1, Offset(1)), (E2, Offset(5))))


def part(position: int, data: bytes, *, is_last: bool = False) -> SnapshotRequest:
    return SnapshotRequest(E2, I1, SNAPSHOT, position, data, is_last)


def asks(position: int) -> Send:
    return Send(LEADER, SnapshotResponse(E2, I1, SNAPSHOT.head, position))


def test_a_snapshot_comes_in_parts_and_replaces_the_log() -> None:
    single = follower(*LOG)
    assert single.hear("B", part(0, b"abc")) == [WriteSnapshot(SNAPSHOT, 0, b"abc", is_last=False)]
    assert single.hear("B", part(0, b"abc")) == [], "it is on its way to the disk"
    assert single.step(SnapshotWritten(SNAPSHOT, 3, is_last=False)) == [asks(3)]
    assert single.hear("B", part(0, b"abc")) == [asks(3)], "a duplicate"
    assert single.hear("B", part(3, b"de", is_last=True)) == [WriteSnapshot(SNAPSHOT, 3, b"de", is_last=True)]
    assert single.step(SnapshotWritten(SNAPSHOT, 5, is_last=True)) == [
        KeepLost(Offset(1), Offset(3), E2),
        RestoreSnapshot(SNAPSHOT),
        SaveState(NodeState(A, E2, Offset(9), SNAPSHOT, is_formatted=True)),
        TruncateLog(Lsn(0)),
    ]
    assert single.save() == [], "the state machine is not there yet"
    assert single.step(SnapshotRestored(SNAPSHOT.head)) == [
        Send(LEADER, SnapshotResponse(E2, I1, SNAPSHOT.head, 5, SNAPSHOT.head))
    ]
    assert single.hear("B", add((2, 9), txn("z", 3, 2))) == [Persist(Lsn(10), (txn("z", 3, 2),))]


def test_a_part_from_the_middle_makes_it_start_again() -> None:
    single = follower(*LOG)
    assert single.hear("B", part(7, b"x")) == [asks(0)], "this node restarted, perhaps, and has nothing of it"


def test_a_snapshot_of_what_is_held_already_is_not_installed() -> None:
    single = follower(*LOG)
    held = SnapshotRequest(E2, I1, SnapshotMeta(entry_id(1, 2), ((E1, Offset(1)),)), 0, b"", is_last=True)
    assert single.hear("B", held) == [Send(LEADER, SnapshotResponse(E2, I1, entry_id(1, 2), 0, entry_id(1, 3)))]


def test_a_snapshot_of_what_is_held_and_not_yet_durable_is_answered_when_it_is() -> None:
    """Found by the explorer: told of less, the leader sent the snapshot again and again until the disk was done."""
    single = follower(*LOG)
    single.hear("B", add((1, 3), Barrier(E2)))
    snapshot = SnapshotMeta(entry_id(2, 4), ((E1, Offset(1)), (E2, Offset(4))))
    assert single.hear("B", SnapshotRequest(E2, I1, snapshot, 0, b"", is_last=True)) == []
    assert single.sync() == [Send(LEADER, SnapshotResponse(E2, I1, entry_id(2, 4), 0, entry_id(2, 4))), ack(2, 4)]


def test_a_snapshot_waits_until_nothing_is_under_way_to_the_disk() -> None:
    single = follower(*LOG)
    single.hear("B", part(0, b"abc", is_last=True))
    single.hear("B", add((1, 3), txn("z", 3)))
    assert single.step(SnapshotWritten(SNAPSHOT, 3, is_last=True)) == []
    assert any(isinstance(effect, RestoreSnapshot) for effect in single.sync())


def test_a_whole_snapshot_which_waits_for_the_disk_asks_for_nothing_more() -> None:
    """Found by a drill: asked for what is behind its end, the leader sent an empty last part, and that was stored."""
    single = follower(*LOG)
    single.hear("B", part(0, b"abc", is_last=True))
    single.hear("B", add((1, 3), txn("z", 3)))
    single.step(SnapshotWritten(SNAPSHOT, 3, is_last=True))
    assert single.hear("B", part(0, b"abc", is_last=True)) == [], "the leader's heartbeat sends it again"
    assert single.hear("B", part(3, b"", is_last=True)) == []
    assert any(isinstance(effect, RestoreSnapshot) for effect in single.sync())


def test_a_new_epoch_forgets_what_was_being_received() -> None:
    single = follower(*LOG)
    single.hear("B", part(0, b"abc", is_last=True))
    single.hear("op", FenceRequest(E3, I1))
    single.save()
    assert single.step(SnapshotWritten(SNAPSHOT, 3, is_last=True)) == []
    assert single.node.log.head == entry_id(1, 3)
