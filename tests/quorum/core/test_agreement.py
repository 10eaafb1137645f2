"""A wrong state machine is found by a majority, and never leads, serves or writes a snapshot again (Q-12, Q-13)."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.quorum.core.cluster import entry_id, members
from tests.quorum.core.single import E1, E2, I1, A, Single

from penstock.kernel.effects import Effect, SaveState, Send
from penstock.kernel.ids import EntryId, Epoch, NodeId, Offset
from penstock.quorum.core.machines.agreement import OWN_MAX, Jury, ReplicaTrust
from penstock.quorum.core.node import Node
from penstock.quorum.records.effects import Applied, SnapshotTaken, TakeSnapshot
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    BecomeLeaderRequest,
    FenceRequest,
    FenceResponse,
    Reason,
    Refusal,
    Role,
)
from penstock.quorum.records.state import Comparison, NodeState, SnapshotMeta

B, C = members("BC")
WRONG = Comparison(Offset(2), E1, 4, 5)  # this replica has 5 there, a leader wrote 4


def told(checksum: int, offset: int = 2) -> AddEntryResponse:
    return AddEntryResponse(E1, I1, entry_id(1, 3), checked=Offset(offset), checksum=checksum)


def leading() -> Single:
    """A leads with its log applied, and has compared its checksum at 2: it is 5."""
    single = Single()
    single.lead_in_peace()
    single.append("x")
    single.sync()
    single.ack("B", 1, 3)
    single.step(Applied(Offset(3), (1,), 5, (Comparison(Offset(2), E1, 5, 5),)))
    return single


def asked(effects: list[Effect]) -> list[tuple[int, int | None]]:
    return [
        (effect.message.disputed, effect.message.verdict)
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, AddEntryRequest) and not effect.message.entries
    ]


def saved(effects: list[Effect]) -> list[Comparison | None]:
    return [effect.state.divergence for effect in effects if isinstance(effect, SaveState)]


def test_one_follower_that_differs_is_wrong_if_the_others_agree() -> None:
    single = leading()
    assert asked(single.hear("B", told(4))) == [(2, None)] * 2, "all are asked at once"
    assert single.node.replica.agreement.suspicion == Comparison(Offset(2), E1, 4, 5)
    assert asked(single.hear("C", told(5))) == [(2, 5)] * 2, "all hear what a majority has"
    assert single.node.replica.agreement.is_trusted
    assert single.node.role is Role.LEADER
    assert asked(single.hear("B", told(4))) == [], "it is known to be wrong: no new dispute"
    assert asked(single.hear("B", told(9, offset=1))) == [], "nor about what nobody here can compare"


def test_a_leader_that_is_wrong_says_so_durably_and_leads_no_more() -> None:
    single = leading()
    single.hear("B", told(4))
    effects = single.hear("C", told(4))
    wrong = Comparison(Offset(2), E1, 4, 5)
    assert saved(effects) == [wrong]
    assert single.node.role is Role.FENCED
    single.sync()
    single.save()
    effects = single.hear("op", FenceRequest(E2, I1))
    assert saved(effects) == [wrong]
    effects = single.save()
    assert Send(NodeId("op"), FenceResponse(E2, I1, entry_id(1, 4), is_diverged=True)) in effects
    effects = single.hear("op", BecomeLeaderRequest(E2, I1, members("ABC"), ()))
    assert effects == [Send(NodeId("op"), Refusal(E2, I1, "BecomeLeaderRequest", Reason.MAY_NOT_LEAD, E2))], (
        "a late BecomeLeader of an operator that does not know"
    )


def test_a_follower_believes_a_majority_and_not_its_leader() -> None:
    single = Single()
    single.hear("op", FenceRequest(E1, I1))
    single.save()
    agreement = single.node.replica.agreement
    agreement.compared([WRONG])
    effects = single.hear("B", AddEntryRequest(E1, I1, entry_id(0, 0), ()))
    assert Send(NodeId("B"), AddEntryResponse(E1, I1, entry_id(0, 0), checked=Offset(2), checksum=5)) in effects
    single.hear("B", AddEntryRequest(E1, I1, entry_id(0, 0), (), disputed=Offset(2)))
    assert single.node.divergence is None
    single.hear("B", AddEntryRequest(E1, I1, entry_id(0, 0), (), disputed=Offset(2), verdict=5))
    assert agreement.is_trusted, "its leader was wrong"
    agreement.compared([WRONG])
    effects = single.hear("B", AddEntryRequest(E1, I1, entry_id(0, 0), (), disputed=Offset(2), verdict=4))
    assert saved(effects) == [WRONG]


def test_a_suspected_replica_takes_no_snapshot_and_forgets_one_under_way() -> None:
    single = leading()
    replica = single.node.replica
    replica.take_snapshot()
    (taking,) = replica.take_effects()
    assert isinstance(taking, TakeSnapshot)
    single.hear("B", told(4))
    single.step(SnapshotTaken(taking.snapshot))
    assert replica.snapshot == SnapshotMeta()
    replica.take_snapshot()
    assert replica.take_effects() == []
    single.hear("C", told(5))
    replica.take_snapshot()
    assert replica.take_effects() == [taking]


def test_a_verdict_needs_a_majority_of_the_ensemble() -> None:
    jury, (a, b, c, d) = Jury(), members("ABCD")
    jury.open(Offset(7))
    jury.vote(a, 1, (a, b, c))
    jury.vote(d, 1, (a, b, c))
    assert jury.verdict is None, "D has no vote"
    jury.vote(b, 2, (a, b, c))
    assert jury.verdict is None
    jury.vote(c, 2, (a, b, c))
    assert jury.verdict == 2
    assert not jury.is_news(Offset(7), b)
    assert not jury.is_news(Offset(9), a), "it was found wrong"
    assert jury.is_news(Offset(9), b)


def test_what_is_remembered_is_bounded() -> None:
    agreement = ReplicaTrust(None)
    agreement.compared(Comparison(Offset(offset), E1, 1, 1) for offset in range(1, OWN_MAX + 3))
    assert [agreement.own(Offset(each)) for each in (1, 2, 3, OWN_MAX + 2)] == [None, None, 1, 1]


@given(st.builds(NodeState, st.just(A), st.integers(0, 9).map(Epoch), divergence=st.none() | st.just(WRONG)))
def test_a_node_writes_down_what_it_has_read(state: NodeState) -> None:
    """Save the registers that were read: each field survives a restart."""
    state = msgspec.structs.replace(state, is_formatted=True)
    node, _ = Node.recover(state, Offset(1), ())
    node.replica.save()
    (saving,) = node.replica.take_effects()[-1:]
    assert saving == SaveState(state)
    assert len(NodeState.__struct_fields__) == 6, "a new register: is it written down, and read?"


def test_a_person_decides_where_no_majority_can() -> None:
    single = leading()
    single.hear("B", told(4))
    leader = single.node.leader
    assert leader is not None
    leader._dismiss(C)
    assert not single.node.replica.agreement.is_trusted, "C said nothing"
    leader._dismiss(B)
    assert single.node.replica.agreement.is_trusted


def test_no_snapshot_is_sent_while_nobody_knows_who_is_wrong() -> None:
    single = leading()
    single.hear("B", told(4))
    leader = single.node.leader
    assert leader is not None
    leader.replication.send_snapshot(C)
    (empty,) = single.node.replica.take_effects()
    assert isinstance(empty, Send), "an empty snapshot is right for certain"
    single.node.replica.snapshot = SnapshotMeta(EntryId(E1, Offset(2)))
    leader.replication.send_snapshot(C)
    assert single.node.replica.take_effects() == []
