import pytest
from tests.quorum.core.single import E1, E2, E3, I1, OP, A, B, C, Single

from penstock.kernel.effects import (
    CancelTimer,
    Persist,
    PersistFailed,
    Reply,
    Requested,
    SaveState,
    Send,
    SetTimer,
    Stop,
    TimerFired,
)
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Incarnation, Instant, Lsn, NodeId, Offset, RequestId
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.node import Node
from penstock.quorum.records.answers import Answers, Cause, Fate
from penstock.quorum.records.effects import (
    Append,
    AppendRequest,
    Apply,
    LogRead,
    ReadLog,
    RestoreSnapshot,
    SnapshotRestored,
)
from penstock.quorum.records.entry import Barrier, ClientId, Confirm, Entry, Txn
from penstock.quorum.records.member import Member
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    AddFollowerRequest,
    AddFollowerResponse,
    BecomeLeaderRequest,
    BecomeLeaderResponse,
    FenceRequest,
    FenceResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    Reason,
    Refusal,
    Role,
    SnapshotRequest,
    SnapshotResponse,
)
from penstock.quorum.records.resolution import Resolution, Resolve
from penstock.quorum.records.state import NO_SNAPSHOT, NodeState

HEARTBEAT_AT = Instant(NodeConfig().heartbeat_ns)


def refusal(request: str, reason: Reason, *, epoch: int, request_epoch: int) -> Send:
    return Send(OP, Refusal(Epoch(epoch), I1, request, reason, Epoch(request_epoch)))


def test_a_node_comes_up_fenced_and_restores_its_state_machine() -> None:
    single = Single()
    assert single.first_effects == [RestoreSnapshot(NO_SNAPSHOT)]
    assert (single.node.role, single.node.epoch) == (Role.FENCED, 0)


def test_a_fence_is_answered_when_its_epoch_is_durable() -> None:
    single = Single()
    assert single.hear("op", FenceRequest(E1, I1)) == [SaveState(NodeState(A, E1, is_formatted=True))]
    assert single.save() == [Send(OP, FenceResponse(E1, I1, NO_ENTRY))]


def test_a_fence_is_answered_when_writes_under_way_are_settled() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("x")
    effects = single.hear("op", FenceRequest(E2, I1))
    assert effects == [
        Answers(Fate.INDETERMINATE, E1, (RequestId(1),), (Offset(3),), cause=Cause.FENCED),
        CancelTimer("heartbeat"),
        CancelTimer("limbo"),
        CancelTimer("confirm"),
        SaveState(NodeState(A, E2, Offset(2), is_formatted=True)),
    ]
    assert single.save() == [], "x is still on its way to the disk"
    assert single.sync() == [Send(OP, FenceResponse(E2, I1, EntryId(E1, Offset(3))))]


def test_several_operators_get_their_answer() -> None:
    single = Single()
    single.hear("op", FenceRequest(E1, I1))
    single.hear("op2", FenceRequest(E1, I1))
    response = FenceResponse(E1, I1, NO_ENTRY)
    assert single.save() == [Send(OP, response), Send(NodeId("op2"), response)]


def test_a_higher_fence_silences_the_answer_to_a_lower_one() -> None:
    single = Single()
    single.hear("op", FenceRequest(E1, I1))
    single.hear("op2", FenceRequest(E2, I1))
    assert single.save() == []
    assert single.save() == [Send(NodeId("op2"), FenceResponse(E2, I1, NO_ENTRY))]


def test_lower_epochs_other_incarnations_and_empty_nodes_refuse() -> None:
    single = Single()
    single.hear("op", FenceRequest(E2, I1))
    assert single.hear("op", FenceRequest(E1, I1)) == [
        refusal("FenceRequest", Reason.HIGHER_EPOCH, epoch=2, request_epoch=1)
    ]
    assert single.hear("op", FenceRequest(E3, Incarnation("i9"))) == [
        refusal("FenceRequest", Reason.OTHER_INCARNATION, epoch=2, request_epoch=3)
    ]
    empty = Single(state=NodeState(A))
    assert empty.hear("op", FenceRequest(E3, I1)) == [refusal("FenceRequest", Reason.NO_DATA, epoch=0, request_epoch=3)]
    assert empty.hear("op", FenceRequest(E1, I1, is_forming=True)) == [SaveState(NodeState(A, E1, is_formatted=True))]


def test_becoming_leader_opens_the_epoch_with_its_barrier() -> None:
    single = Single()
    effects = single.lead(1, "ABC", {"B": NO_ENTRY})
    add = AddEntryRequest(E1, I1, NO_ENTRY, (Barrier(E1),))
    assert effects == [
        Send(NodeId("B"), add),
        SetTimer("heartbeat", HEARTBEAT_AT),
        Send(OP, BecomeLeaderResponse(E1, I1)),
        Persist(Lsn(1), (Barrier(E1),)),
    ]


def test_becoming_leader_is_idempotent_and_bound_to_this_run() -> None:
    single = Single()
    single.lead()
    lead = BecomeLeaderRequest(E1, I1, (A, B, C), ())
    assert single.hear("op", lead) == [Send(OP, BecomeLeaderResponse(E1, I1))]
    restarted = Single(state=NodeState(A, E1, is_formatted=True))
    refused = [refusal("BecomeLeaderRequest", Reason.MAY_NOT_LEAD, epoch=1, request_epoch=1)]
    assert restarted.hear("op", lead) == refused
    assert restarted.hear("op", FenceRequest(E1, I1)) == [Send(OP, FenceResponse(E1, I1, NO_ENTRY))]
    assert restarted.hear("op", lead) == refused, "a repeated fence does not restore the right"


def test_who_has_followed_in_an_epoch_does_not_lead_it() -> None:
    single = Single()
    single.hear("op", FenceRequest(E1, I1))
    single.save()
    single.hear("B", AddEntryRequest(E1, I1, NO_ENTRY, ()))
    assert single.hear("op", BecomeLeaderRequest(E1, I1, (A, B, C), ())) == [
        refusal("BecomeLeaderRequest", Reason.MAY_NOT_LEAD, epoch=1, request_epoch=1)
    ]


def test_a_stranger_to_the_ensemble_does_not_lead_it() -> None:
    single = Single()
    single.hear("op", FenceRequest(E1, I1))
    single.save()
    assert single.hear("op", BecomeLeaderRequest(E1, I1, (B, C), ())) == [
        refusal("BecomeLeaderRequest", Reason.NOT_A_MEMBER, epoch=1, request_epoch=1)
    ]


def test_only_a_leader_takes_appends() -> None:
    single = Single()
    assert single.append("x") == [Answers(Fate.NOT_LEADER, Epoch(0), (RequestId(1),), (Offset(0),))]


def test_a_transaction_from_append_to_answer() -> None:
    single = Single()
    single.lead_in_peace()
    x = Txn(E1, ClientId("c"), 1, b"x")
    add = AddEntryRequest(E1, I1, EntryId(E1, Offset(2)), (x,), Offset(2))
    assert single.append("x") == [
        Send(NodeId("B"), add),
        Send(NodeId("C"), add),
        SetTimer("limbo", Instant(NodeConfig().append_timeout_ns)),
        Persist(Lsn(3), (x,)),
    ]
    assert single.sync() == [], "one of three"
    confirm = Confirm(E1, Offset(3), Offset(2))
    confirmed = AddEntryRequest(E1, I1, EntryId(E1, Offset(3)), (confirm,), Offset(3))
    assert single.ack("B", 1, 3) == [
        Answers(Fate.COMMITTED, E1, (RequestId(1),), (Offset(3),)),
        Send(NodeId("B"), confirmed),
        Send(NodeId("C"), confirmed),
        Apply(Offset(3), (x,)),
        Persist(Lsn(4), (confirm,)),
    ]


def test_a_refusal_from_a_higher_epoch_ends_a_leadership() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("x")
    told = single.hear("B", Refusal(E2, I1, "AddEntryRequest", Reason.HIGHER_EPOCH, E1))
    assert told[0] == Answers(Fate.INDETERMINATE, E1, (RequestId(1),), (Offset(3),), cause=Cause.FENCED)
    assert (single.node.role, single.node.epoch) == (Role.FENCED, 1), "the operator will say what comes next"
    assert single.hear("Z", Refusal(E3, I1, "AddEntryRequest", Reason.HIGHER_EPOCH, E1)) == []


def test_a_leader_of_a_higher_epoch_is_followed_once_that_epoch_is_durable() -> None:
    single = Single()
    effects = single.hear("B", AddEntryRequest(E2, I1, NO_ENTRY, (Barrier(E2),)))
    assert effects == [SaveState(NodeState(A, E2, is_formatted=True)), Persist(Lsn(1), (Barrier(E2),))]
    assert single.sync() == [], "the epoch is not durable yet"
    assert single.save() == [Send(NodeId("B"), AddEntryResponse(E2, I1, EntryId(E2, Offset(1))))]


def test_an_empty_node_is_formatted_by_a_snapshot() -> None:
    single = Single(state=NodeState(A))
    assert single.hear("B", SnapshotRequest(E2, I1, NO_SNAPSHOT, 0, b"", is_last=True)) == [
        SaveState(NodeState(A, E2)),
        SaveState(NodeState(A, E2, is_formatted=True)),
    ]
    assert single.save() == []
    assert single.save() == [Send(NodeId("B"), SnapshotResponse(E2, I1, NO_ENTRY, 0, NO_ENTRY))]


def test_heartbeats_are_answered_in_every_state() -> None:
    empty = Single(state=NodeState(A))
    response = HeartbeatResponse(Epoch(0), I1, 7, Role.FENCED, NO_ENTRY, Offset(0))
    assert empty.hear("op", HeartbeatRequest(E3, I1, 7)) == [Send(OP, response)]
    single = Single()
    single.lead_in_peace()
    head = EntryId(E1, Offset(2))
    assert single.hear("op", HeartbeatRequest(E1, I1, 8)) == [
        Send(OP, HeartbeatResponse(E1, I1, 8, Role.LEADER, head, Offset(2), (B, C)))
    ]


def test_a_follower_is_added_once_and_strangers_are_not() -> None:
    single = Single()
    single.lead(1, "ABC", {"B": NO_ENTRY})
    effects = single.hear("op", AddFollowerRequest(E1, I1, C, NO_ENTRY))
    assert effects == [
        Send(NodeId("C"), AddEntryRequest(E1, I1, NO_ENTRY, (Barrier(E1),))),
        Send(OP, AddFollowerResponse(E1, I1, C)),
    ]
    assert single.hear("op", AddFollowerRequest(E1, I1, C, NO_ENTRY)) == [Send(OP, AddFollowerResponse(E1, I1, C))]
    wiped = Member(NodeId("C"), Incarnation("i2"))
    assert single.hear("op", AddFollowerRequest(E1, I1, wiped, NO_ENTRY)) == [
        refusal("AddFollowerRequest", Reason.NOT_A_MEMBER, epoch=1, request_epoch=1)
    ]


def test_a_failed_write_ends_the_node() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("x")
    *answers, stop = single.step(PersistFailed("no space left"))
    assert answers[0] == Answers(Fate.INDETERMINATE, E1, (RequestId(1),), (Offset(3),), cause=Cause.FENCED)
    assert stop == Stop("the log of A#i1 cannot be written: no space left")
    with pytest.raises(AssertionError):
        single.sync()


def test_resolve_is_answered_at_once() -> None:
    single = Single()
    single.lead_in_peace()
    assert single.step(Requested(RequestId(5), Resolve(EntryId(E1, Offset(1))))) == [
        Reply(RequestId(5), Resolution.COMMITTED)
    ]


def test_restart_applies_up_to_confirmed_and_no_further() -> None:
    entries = (Barrier(E1), Txn(E1, ClientId("c"), 1, b"x"), Confirm(E1, Offset(2)), Txn(E1, ClientId("c"), 2, b"y"))
    single = Single(entries, state=NodeState(A, E1, is_formatted=True))
    assert (single.node.replica.applied, single.node.log.end, single.node.role) == (2, 4, Role.FENCED)


def test_old_entries_are_read_back_to_be_applied() -> None:
    entries: list[Entry] = [
        Barrier(E1),
        *(Txn(E1, ClientId("c"), seq, b"x" * 100) for seq in range(20)),
        Confirm(E1, Offset(21)),
    ]
    config = NodeConfig(tail_bytes_max=200, apply_bytes_max=500)
    node, _ = Node.recover(NodeState(A, E1, is_formatted=True), Offset(1), entries, config)
    node.check()
    assert node.step(SnapshotRestored(NO_ENTRY), Instant(0)) == [ReadLog("apply", Offset(1), Offset(21), 500)]
    part = tuple(entries[:3])
    assert node.step(LogRead("apply", Offset(1), part), Instant(0)) == [Apply(Offset(1), part)]


def test_what_a_node_does_not_know_is_a_local_error() -> None:
    single = Single()
    with pytest.raises(InvalidArgument):
        single.step(Requested(RequestId(1), "what?"))
    with pytest.raises(InvalidArgument):
        single.hear("B", "what?")  # type: ignore[arg-type]
    assert single.step(TimerFired("heartbeat")) == [], "a timer of a leadership which is over"
    assert single.step(Append((AppendRequest(RequestId(1), ClientId("c"), 1, b""),)))
