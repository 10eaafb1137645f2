from tests.quorum.core.cluster import member, members

from penstock.kernel.ids import Epoch
from penstock.quorum.records.messages import Change, ChangeOp
from penstock.quorum.records.metadata import Metadata, Status
from penstock.quorum.records.reconfiguration import Phase

SWAP = Change(ChangeOp.SWAP, member("B"), member("D"))
STEADY = Metadata(members("ABC"), Epoch(4), Status.STEADY_STATE, member("A"), None, is_formed=True)


def test_a_change_goes_through_prepare_and_commit_to_its_final_ensemble() -> None:
    preparing = STEADY.preparing(SWAP)
    assert (preparing.epoch, preparing.status, preparing.leader) == (5, Status.RECONFIGURATION, member("A"))
    assert preparing.final_ensemble == preparing.fencing_ensemble == members("ABC"), "PREPARE binds nobody"
    committing = preparing.committing_change()
    assert committing.reconfiguration is not None
    assert committing.reconfiguration.phase is Phase.COMMIT
    assert (committing.final_ensemble, committing.fencing_ensemble) == (members("ACD"), members("ABCD"))
    assert committing.ensemble == members("ABC"), "until it is done"
    done = committing.reconfigured()
    assert done == Metadata(members("ACD"), Epoch(5), Status.STEADY_STATE, member("A"), None, is_formed=True)


def test_an_election_drops_prepare_and_keeps_commit() -> None:
    preparing = STEADY.preparing(SWAP)
    dropped = preparing.in_election(Epoch(6))
    assert (dropped.status, dropped.leader, dropped.reconfiguration) == (Status.ELECTION, None, None)
    assert dropped.elected(member("C")).ensemble == members("ABC")
    kept = preparing.committing_change().in_election(Epoch(6))
    assert kept.committing == SWAP
    assert kept.in_election(Epoch(7)).committing == SWAP, "however many elections it takes"
    assert kept.elected(member("D")).ensemble == members("ACD")


def test_a_shard_is_formed_once_it_had_a_leader() -> None:
    new = Metadata(members("ABC"))
    assert not new.in_election(Epoch(1)).is_formed
    assert new.in_election(Epoch(1)).elected(member("A")).in_election(Epoch(2)).is_formed
