import msgspec
from tests.quorum.core.cluster import member, members
from tests.quorum.core.single import E1, E2, I1, OP, C, D, Single, txn

from penstock.kernel.effects import (
    CancelTimer,
    Effect,
    Persist,
    Reply,
    Requested,
    SaveState,
    Send,
    SetTimer,
    TimerFired,
)
from penstock.kernel.errors import Unavailable
from penstock.kernel.ids import MILLISECOND, NO_ENTRY, SECOND, EntryId, Epoch, Instant, Lsn, NodeId, Offset, RequestId
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.leader import Leader
from penstock.quorum.core.reading.reads import QuorumRead
from penstock.quorum.records.answers import Answers, Cause, Fate
from penstock.quorum.records.effects import ALL, APPLIED, Apply, Serve
from penstock.quorum.records.entry import Barrier, Confirm, Rollback
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    Change,
    ChangeOp,
    CommitReconfigurationRequest,
    CommitReconfigurationResponse,
    PrepareReconfigurationRequest,
    PrepareReconfigurationResponse,
    Reason,
    Refusal,
    SnapshotRequest,
    SnapshotResponse,
)
from penstock.quorum.records.state import NO_SNAPSHOT

LATE = NodeConfig(confirm_delay_ns=SECOND)
CONTRACT_C = Change(ChangeOp.CONTRACT, C, None)
EXPAND_D = Change(ChangeOp.EXPAND, None, D)


def leader_of(single: Single) -> Leader:
    leader = single.node.leader
    assert leader is not None
    return leader


def records(effects: list[Effect]) -> list[object]:
    return [record for effect in effects if isinstance(effect, Persist) for record in effect.records]


def answers(effects: list[Effect]) -> list[Answers]:
    return [effect for effect in effects if isinstance(effect, Answers)]


def told(fate: Fate, *pairs: tuple[int, int], results: tuple[object, ...] = (), cause: Cause = Cause.NONE) -> Answers:
    requests, offsets = zip(*pairs, strict=True)
    return Answers(fate, E1, tuple(map(RequestId, requests)), tuple(map(Offset, offsets)), results, cause)


def test_one_step_serves_a_whole_batch() -> None:
    single = Single()
    single.lead_in_peace()
    effects = single.append("x", "y", "z")
    assert records(effects) == [txn("x", 1), txn("y", 2), txn("z", 3)]
    assert sum(isinstance(effect, Send) for effect in effects) == 2, "one message per follower"
    assert sum(isinstance(effect, Persist) for effect in effects) == 1
    single.sync()
    assert answers(single.ack("B", 1, 5)) == [told(Fate.COMMITTED, (1, 3), (2, 4), (3, 5))]


def test_prior_epochs_commit_only_with_this_one() -> None:
    single = Single([Barrier(E1), txn("x", 1)])
    single.lead(2, "ABC", {"B": NO_ENTRY})
    single.sync()
    single.ack("B", 1, 2, request_epoch=2)
    assert single.node.replica.commit == 0, "x is on a majority, but epoch 2's barrier is not"
    single.ack("B", 2, 3)
    assert single.node.replica.commit == 3


def test_confirm_covers_what_is_committed_once_and_never_confirms_alone() -> None:
    single = Single()
    single.lead(1, "A")
    assert records(single.sync()) == [Confirm(E1, Offset(1))]
    single.apply()
    assert records(single.sync()) == [], "a CONFIRM is not worth a CONFIRM"
    assert records(single.append("x")) == [txn("x", 1)]
    assert records(single.sync()) == [Confirm(E1, Offset(3), Offset(1))], "with the checksum at 1"


def test_a_confirm_may_wait_for_company() -> None:
    single = Single(config=LATE)
    single.lead(1, "A")
    effects = single.sync()
    assert SetTimer("confirm", Instant(SECOND)) in effects
    assert records(effects) == []
    assert records(single.append("x")) == [txn("x", 1), Confirm(E1, Offset(1))], "it goes with the next batch"
    single.now = Instant(SECOND // 2)
    single.sync()
    single.now = Instant(SECOND)
    effects = single.step(TimerFired("confirm"))
    assert records(effects) == [], "the timer was set for the one which has gone: what is owed now came later"
    assert SetTimer("confirm", Instant(SECOND + SECOND // 2)) in effects
    single.now = Instant(SECOND + SECOND // 2)
    assert records(single.step(TimerFired("confirm"))) == [Confirm(E1, Offset(3))], "or when its time has come"
    single.sync()
    assert records(single.step(TimerFired("confirm"))) == [], "and not twice"


def test_async_is_acknowledged_when_durable_and_committed_later() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("a", is_sync=False)
    assert answers(single.sync()) == [told(Fate.ACKNOWLEDGED, (1, 3))]
    assert answers(single.ack("B", 1, 3)) == []
    assert single.node.replica.commit == 3


def test_async_waits_for_the_barrier_of_its_epoch() -> None:
    single = Single()
    single.lead(1, "ABC", {"B": NO_ENTRY})
    single.append("a", is_sync=False)
    assert answers(single.sync()) == []
    assert answers(single.ack("B", 1, 1)) == [told(Fate.ACKNOWLEDGED, (1, 2))]


def test_a_level_above_the_majority_delays_its_own_answer() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("all", level=ALL)
    single.append("two", first_request=2)
    single.sync()
    assert answers(single.ack("B", 1, 4)) == [told(Fate.COMMITTED, (2, 4))]
    assert answers(single.ack("C", 1, 3)) == [told(Fate.COMMITTED, (1, 3))]


def test_a_level_which_does_not_exist_is_refused() -> None:
    single = Single()
    single.lead_in_peace()
    refused = Answers(Fate.INVALID, Epoch(0), (RequestId(1),), (Offset(0),))
    assert answers(single.append("x", level=1)) == [refused], "below the majority"
    assert answers(single.append("x", level=4)) == [refused], "above the ensemble"
    assert answers(single.append("x", level=ALL, is_sync=False)) == [refused]


def test_a_level_timeout_says_what_is_true() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("x", level=3, timeout_ns=SECOND)
    single.sync()
    single.ack("B", 1, 3)
    single.now = Instant(SECOND)
    assert answers(single.step(TimerFired("limbo"))) == [told(Fate.COMMITTED_BELOW_LEVEL, (1, 3))]


def test_a_result_comes_with_the_answer_if_the_client_waits_for_it() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("x", "y", level=APPLIED)
    single.sync()
    assert answers(single.ack("B", 1, 4)) == []
    assert answers(single.apply()) == [told(Fate.COMMITTED, (1, 3), (2, 4), results=(3, 4))]


def test_a_timeout_detaches_by_default() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("x")
    single.now = Instant(5 * SECOND)
    assert single.step(TimerFired("limbo")) == [told(Fate.INDETERMINATE, (1, 3), cause=Cause.QUORUM_TIMEOUT)]
    single.sync()
    assert answers(single.ack("B", 1, 3)) == []
    assert single.node.replica.commit == 3, "the entry stayed"


def test_a_timeout_may_roll_back_and_aborts_when_that_commits() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("f", "g", rolls_back=True)
    single.sync()
    single.now = Instant(5 * SECOND)
    effects = single.step(TimerFired("limbo"))
    assert records(effects) == [Rollback(E1, Offset(3))], "one ROLLBACK, of the lowest"
    assert answers(effects) == []
    single.sync()
    assert answers(single.ack("B", 1, 4)) == [], "f and g are on a majority, but doomed: nothing commits half-way"
    assert answers(single.ack("B", 1, 5)) == [told(Fate.ABORTED, (2, 4), (1, 3), cause=Cause.QUORUM_TIMEOUT)]


def test_a_rollback_which_does_not_commit_in_time_leaves_the_answer_open() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("f", rolls_back=True)
    single.now = Instant(5 * SECOND)
    single.step(TimerFired("limbo"))
    single.now = Instant(10 * SECOND)
    assert answers(single.step(TimerFired("limbo"))) == [told(Fate.INDETERMINATE, (1, 3), cause=Cause.QUORUM_TIMEOUT)]


def test_the_limbo_timer_is_set_for_the_earliest_deadline() -> None:
    single = Single()
    single.lead_in_peace()
    timers = [effect for effect in single.append("x") if isinstance(effect, SetTimer)]
    assert timers == [SetTimer("limbo", Instant(5 * SECOND))]
    timers = [effect for effect in single.append("y", first_request=2) if isinstance(effect, SetTimer)]
    assert timers == []
    soon = single.append("z", first_request=3, timeout_ns=20 * MILLISECOND)
    assert [effect for effect in soon if isinstance(effect, SetTimer)] == [SetTimer("limbo", Instant(20 * MILLISECOND))]


def test_a_linearizable_read_is_a_round_and_what_was_committed_when_it_came() -> None:
    single = Single()
    single.lead_in_peace()
    ask = AddEntryRequest(E1, I1, EntryId(E1, Offset(2)), (), Offset(2), 1)
    assert single.step(Requested(RequestId(9), QuorumRead())) == [Send(NodeId("B"), ask), Send(NodeId("C"), ask)]
    stale = AddEntryResponse(E1, I1, EntryId(E1, Offset(2)), 0)
    assert single.hear("B", stale) == [], "an answer from before the round proves nothing"
    assert single.hear("B", msgspec.structs.replace(stale, round=1)) == [Serve((RequestId(9),), Offset(2))]


def test_a_read_which_nobody_confirms_ends() -> None:
    single = Single()
    single.lead_in_peace()
    single.step(Requested(RequestId(9), QuorumRead()))
    single.now = Instant(6 * SECOND)
    replies = [effect for effect in single.step(TimerFired("heartbeat")) if isinstance(effect, Reply)]
    assert [(each.request, type(each.result)) for each in replies] == [(9, Unavailable)]


def test_prepare_bumps_the_epoch_and_drops_the_old_nodes_vote() -> None:
    single = Single()
    single.lead_in_peace()
    effects = single.hear("op", PrepareReconfigurationRequest(E2, I1, CONTRACT_C))
    assert [effect for effect in effects if isinstance(effect, SaveState | Persist)] == [
        SaveState(msgspec.structs.replace(single.node.replica.saved, epoch=E2)),
        Persist(Lsn(3), (Barrier(E2),)),
    ]
    assert [effect.to for effect in effects if isinstance(effect, Send)] == ["B"]
    single.save()
    single.sync()
    assert single.ack("C", 2, 3) == [], "C has no cursor any more"
    assert single.node.replica.commit == 2
    prepared = Send(OP, PrepareReconfigurationResponse(E2, I1))
    assert prepared in single.ack("B", 2, 3)
    assert single.hear("op", PrepareReconfigurationRequest(E2, I1, CONTRACT_C)) == [prepared], "asked again"
    assert single.hear("op", CommitReconfigurationRequest(E2, I1, CONTRACT_C)) == [
        Send(OP, CommitReconfigurationResponse(E2, I1))
    ]
    assert leader_of(single).ensemble == members("AB")
    assert single.hear("op", CommitReconfigurationRequest(E2, I1, CONTRACT_C)) == [
        Send(OP, CommitReconfigurationResponse(E2, I1))
    ]


def test_prepare_sends_the_new_node_a_snapshot_and_waits_until_it_follows() -> None:
    single = Single()
    single.lead_in_peace()
    effects = single.hear("op", PrepareReconfigurationRequest(E2, I1, EXPAND_D))
    assert Send(NodeId("D"), SnapshotRequest(E2, I1, NO_SNAPSHOT, 0, b"", is_last=True)) in effects
    single.save()
    single.sync()
    single.ack("B", 2, 3)
    assert not any(isinstance(effect, Send) and effect.to == OP for effect in single.ack("C", 2, 3))
    assert leader_of(single).ensemble == members("ABC")
    follows = single.hear("D", SnapshotResponse(E2, I1, NO_ENTRY, 0, NO_ENTRY))
    assert Send(OP, PrepareReconfigurationResponse(E2, I1)) in follows, "the barrier is on three of four"


def test_a_change_which_is_not_prepared_is_not_committed() -> None:
    single = Single()
    single.lead_in_peace()
    single.hear("op", PrepareReconfigurationRequest(E2, I1, CONTRACT_C))
    assert single.hear("op", CommitReconfigurationRequest(E2, I1, CONTRACT_C)) == [
        Send(OP, Refusal(E2, I1, "CommitReconfigurationRequest", Reason.NOT_PREPARED, E2))
    ]


def test_prepare_needs_the_leader_of_the_epoch_before_with_its_barrier_applied() -> None:
    single = Single()
    single.lead(1, "ABC", {"B": NO_ENTRY})
    refused = [Send(OP, Refusal(E1, I1, "PrepareReconfigurationRequest", Reason.NOT_READY, E2))]
    assert single.hear("op", PrepareReconfigurationRequest(E2, I1, CONTRACT_C)) == refused
    peace = Single()
    peace.lead_in_peace()
    remove_me = Change(ChangeOp.CONTRACT, member("A"), None)
    assert peace.hear("op", PrepareReconfigurationRequest(E2, I1, remove_me)) == refused
    late = Send(OP, Refusal(E1, I1, "PrepareReconfigurationRequest", Reason.NOT_READY, Epoch(3)))
    assert peace.hear("op", PrepareReconfigurationRequest(Epoch(3), I1, CONTRACT_C)) == [late]


def test_a_frozen_limbo_says_nothing_more() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("x")
    leader = leader_of(single)
    leader.stop()
    assert single.node.replica.take_effects() == [
        told(Fate.INDETERMINATE, (1, 3), cause=Cause.FENCED),
        CancelTimer("heartbeat"),
        CancelTimer("limbo"),
        CancelTimer("confirm"),
    ]
    assert single.node.log.confirmed == 2, "what this leader knew to be committed stays known"
    leader.limbo.committed(Offset(3))
    assert single.node.replica.take_effects() == []


def test_a_leader_applies_only_what_is_durable_here() -> None:
    single = Single()
    single.lead_in_peace()
    single.append("x")
    single.ack("B", 1, 3)
    assert not any(isinstance(effect, Apply) for effect in single.ack("C", 1, 3))
    assert single.node.replica.commit == 3
    assert any(isinstance(effect, Apply) for effect in single.sync(3))
