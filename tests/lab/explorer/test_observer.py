"""What one node alone can break, shown to the observer by mutants and by hand."""

import pytest

from penstock.kernel.effects import Persist, Send, TruncateLog
from penstock.kernel.ids import Epoch, Lsn, NodeId, Offset
from penstock.quorum.core.node import Node
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.effects import Apply
from penstock.quorum.records.entry import Barrier, Confirm, Entry
from penstock.quorum.records.messages import FenceRequest
from penstock.quorum.records.state import NodeState
from penstock_lab.explorer.desks import member
from penstock_lab.explorer.disk_image import DiskImage
from penstock_lab.explorer.facts import Holds, Knows
from penstock_lab.explorer.observer import Observer

ONE = Epoch(1)
LOG: tuple[Entry, ...] = (Barrier(ONE), Confirm(ONE, Offset(1)))


def observed(records: tuple[Entry, ...] = LOG) -> tuple[Node, Observer]:
    """A fenced node in epoch 1 which knows its first entry to be committed."""
    disk = DiskImage(NodeState(member("A"), ONE, is_formatted=True), records=records)
    node, _ = Node.recover(disk.state, Offset(1), records)
    return node, Observer(node, disk)


def test_what_a_restarted_node_knows_is_a_fact() -> None:
    _, observer = observed()
    observer.booted()
    observer.wrote(observer.disk)
    assert observer.facts == [Knows(NodeId("A"), 1, 1, LOG[:1])]


def test_what_a_follower_writes_is_a_fact() -> None:
    _, observer = observed()
    more = Persist(Lsn(3), (Confirm(ONE, Offset(2)),))
    observer.stepped([more])
    observer.wrote(observer.disk.put(more))
    assert observer.facts == [Holds(NodeId("A"), 1, (*LOG, Confirm(ONE, Offset(2))))]


@pytest.mark.parametrize(
    ("effect", "invariant"),
    [
        (Send(NodeId("B"), FenceRequest(Epoch(9), member("B").incarnation)), "I18"),
        (Answers(Fate.COMMITTED, ONE, (1,), (Offset(1),)), "I19"),  # type: ignore[arg-type]
        (Answers(Fate.ABORTED, ONE, (1,), (Offset(1),)), "I19"),  # type: ignore[arg-type]
        (TruncateLog(Lsn(0)), "I5"),
        (Apply(Offset(1), LOG), "I11"),
    ],
)
def test_what_a_fenced_node_may_not_do(effect: object, invariant: str) -> None:
    _, observer = observed()
    with pytest.raises(AssertionError, match=rf"^{invariant}\b"):
        observer.stepped([effect])  # type: ignore[list-item]


def test_a_commit_index_never_falls() -> None:
    node, observer = observed()
    node.replica.commit = Offset(0)
    with pytest.raises(AssertionError, match=r"^I5"):
        observer.stepped([])
