from tests.quorum.core.cluster import entry_id, member, members

from penstock.kernel.ids import Epoch, NodeId
from penstock.quorum.core.election import Election
from penstock.quorum.records.messages import BecomeLeaderRequest, Change, ChangeOp, FenceRequest
from penstock.quorum.records.metadata import Metadata, Status

A, B, C, D = members("ABCD")
FORMING = Metadata(members("ABC")).in_election(Epoch(1))
STEADY = Metadata(members("ABC"), Epoch(4), Status.STEADY_STATE, A, None, is_formed=True)
SWAPPING = STEADY.preparing(Change(ChangeOp.SWAP, B, D)).committing_change().in_election(Epoch(6))


def test_the_very_first_fence_may_be_answered_by_nodes_without_data() -> None:
    assert Election(FORMING).fences() == [
        (each, FenceRequest(Epoch(1), each.incarnation, is_forming=True)) for each in (A, B, C)
    ]
    assert not any(request.is_forming for _, request in Election(STEADY.in_election(Epoch(5))).fences())


def test_who_has_answered_is_not_asked_again_and_counts_once() -> None:
    election = Election(FORMING)
    assert election.fenced(A, entry_id(0, 0))
    assert not election.fenced(A, entry_id(0, 0))
    assert not election.fenced(D, entry_id(9, 9)), "not a member"
    assert not election.fenced(member("B", "i2"), entry_id(9, 9)), "another incarnation"
    assert [each for each, _ in election.fences()] == [B, C]
    assert not election.has_quorum()
    assert election.fenced(B, entry_id(0, 0))
    assert election.has_quorum()
    assert not election.is_complete()


def test_a_wrong_state_machine_never_leads_and_its_log_still_counts() -> None:
    election = Election(STEADY.in_election(Epoch(5)))
    election.fenced(A, entry_id(3, 9), is_diverged=True)
    election.fenced(B, entry_id(3, 7))
    assert not election.has_quorum(), "what A and C hold may be committed, and B lacks it"
    election.fenced(C, entry_id(3, 8))
    assert election.choose()[0] == C, "B and C reach no further: what A has more is not committed"
    behind = Election(STEADY.in_election(Epoch(5)))
    behind.fenced(A, entry_id(3, 7), is_diverged=True)
    behind.fenced(B, entry_id(3, 7))
    assert behind.choose()[0] == B


def test_a_stalled_leader_is_chosen_only_if_nobody_else_can_be() -> None:
    election = Election(STEADY.in_election(Epoch(5)), stalled=A)
    election.fenced(A, entry_id(4, 9))
    election.fenced(B, entry_id(4, 7))
    assert election.is_only_stalled()
    election.fenced(C, entry_id(4, 7))
    assert not election.is_only_stalled()
    assert election.copy().choose()[0] == B


def test_the_highest_head_leads_and_goes_on_leading_whoever_answers_late() -> None:
    election = Election(STEADY.in_election(Epoch(5)))
    election.fenced(A, entry_id(2, 9))
    election.fenced(B, entry_id(3, 4))
    expected = BecomeLeaderRequest(Epoch(5), B.incarnation, (A, B, C), ((A, entry_id(2, 9)),))
    assert election.choose() == (B, expected)
    election.fenced(C, entry_id(4, 1))
    assert election.choose()[0] == B, "BecomeLeader goes to one node only"


def test_among_equal_heads_the_preferred_one_leads() -> None:
    for prefer in "ABC":
        election = Election(STEADY.in_election(Epoch(5)), NodeId(prefer))
        for each in (A, B, C):
            election.fenced(each, entry_id(3, 4))
        assert election.choose()[0] == member(prefer)
    behind = Election(STEADY.in_election(Epoch(5)), NodeId("A"))
    behind.fenced(A, entry_id(3, 3))
    behind.fenced(B, entry_id(3, 4))
    assert behind.choose()[0] == B, "but never one which is behind"


def test_over_commit_the_union_is_fenced_and_a_majority_of_the_final_ensemble_decides() -> None:
    election = Election(SWAPPING)
    assert [each for each, _ in election.fences()] == [A, B, C, D]
    election.fenced(A, entry_id(4, 4))
    election.fenced(B, entry_id(5, 9))
    assert not election.has_quorum(), "B is being removed: its answer decides nothing"
    election.fenced(D, entry_id(5, 6))
    assert election.has_quorum()
    chosen, request = election.choose()
    assert chosen == D, "B's head may be higher, but B is not a candidate"
    assert request == BecomeLeaderRequest(Epoch(6), D.incarnation, (A, C, D), ((A, entry_id(4, 4)),))
    assert election.copy().fingerprint() == election.fingerprint()
