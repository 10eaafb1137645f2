"""Several disks at once."""

import pytest

from penstock.kernel.ids import Epoch, NodeId, Offset
from penstock.quorum.core.node import Node
from penstock.quorum.records.entry import Barrier, ClientId, Entry, Txn
from penstock.quorum.records.state import NodeState
from penstock_lab.explorer.desks import member
from penstock_lab.explorer.disk_image import DiskImage
from penstock_lab.explorer.facts import AppendFact, CommitFact, Fact, Opens
from penstock_lab.explorer.ledger import EMPTY, Ledger
from penstock_lab.explorer.quorums import check_electable, check_resolutions, check_votes

A, ONE = NodeId("A"), Epoch(1)
LOG: tuple[Entry, ...] = (Barrier(ONE), Txn(ONE, ClientId("c"), 1, b""))
ENSEMBLE = tuple(map(member, "ABC"))


def disks(**logs: tuple[Entry, ...]) -> dict[NodeId, DiskImage]:
    return {NodeId(name): DiskImage(NodeState(member(name)), records=log) for name, log in logs.items()}


def ledger(committed: int) -> Ledger:
    facts: list[Fact] = [
        Opens(A, ONE, 1, ()),
        AppendFact(A, ONE, 1, LOG, Offset(0)),
        CommitFact(A, ONE, committed, (), 0),
    ]
    return EMPTY.note(facts)


def test_a_commit_has_its_votes_on_the_disks() -> None:
    fact = CommitFact(A, ONE, 2, ENSEMBLE, 2)
    check_votes([fact], disks(A=LOG, B=LOG, C=()))
    with pytest.raises(AssertionError, match=r"^I4: A commits 1/2, which is durable on \['A'\]"):
        check_votes([fact], disks(A=LOG, B=LOG[:1], C=()))


def test_every_majority_would_choose_a_leader_with_all_that_is_committed() -> None:
    check_electable(ENSEMBLE, ledger(2), disks(A=LOG, B=LOG, C=LOG[:1]))
    with pytest.raises(AssertionError, match=r"^I22: fenced now, \['B', 'C'\] would elect B at 1/1; 2 are committed"):
        check_electable(ENSEMBLE, ledger(2), disks(A=LOG, B=LOG[:1], C=LOG[:1]))


def test_the_highest_head_is_not_the_longest_log() -> None:
    """Two entries of epoch 1 are committed, and C has one of epoch 2 instead: with B it would lead."""
    wrong = (Barrier(ONE), Barrier(Epoch(2)))
    with pytest.raises(AssertionError, match="would elect C at 2/2"):
        check_electable(ENSEMBLE, ledger(2), disks(A=LOG, B=LOG, C=wrong))


class KnowsTooMuch(Node):
    def known_committed(self) -> Offset:
        return self.log.end


def test_a_resolution_is_what_the_committed_log_says() -> None:
    state = NodeState(member("A"), ONE, is_formatted=True)
    honest, _ = Node.recover(state, Offset(1), LOG)
    check_resolutions(ledger(1), honest)
    hasty, _ = KnowsTooMuch.recover(state, Offset(1), LOG)
    with pytest.raises(AssertionError, match=r"^I14: A resolves 1/2 to committed; it is pending"):
        check_resolutions(ledger(1), hasty)
    check_resolutions(ledger(2), hasty)
