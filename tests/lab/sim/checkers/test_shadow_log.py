"""What a node has handed to its disk, and what a crash would leave."""

from random import Random

import pytest
from tests.lab.sim.checkers.scene import barrier, entry_id, txn

from penstock.kernel.effects import Persist
from penstock.kernel.ids import Incarnation, Lsn, NodeId
from penstock.quorum.records.member import Member
from penstock.quorum.records.state import NodeState, SnapshotMeta
from penstock_lab.sim.checkers.shadow_log import ShadowLog, durable_epoch_at, durable_head, is_replaced
from penstock_lab.sim.disk import SimDisk


def test_it_grows_shrinks_and_forgets_its_beginning() -> None:
    log = ShadowLog()
    log.append(1, [barrier(1), txn(1, 1), txn(1, 2)])
    log.truncate(2)
    log.append(3, [barrier(2)])
    assert log.head == entry_id(2, 3)
    log.trim(3)
    assert (log.first, log.base, log.epoch_at(2), log.epoch_at(1), log.epoch_at(4)) == (3, entry_id(1, 2), 1, 0, 0)
    log.reset(entry_id(4, 9))
    assert (log.first, log.end, log.head) == (10, 9, entry_id(4, 9))


def test_a_hole_is_refused() -> None:
    with pytest.raises(AssertionError, match="a hole"):
        ShadowLog().append(2, [barrier(1)])


def disk_with(snapshot: SnapshotMeta, first: int, *entries: object) -> SimDisk:
    disk = SimDisk(Random(1))
    disk.state = NodeState(Member(NodeId("n"), Incarnation("i")), snapshot=snapshot)
    if entries:
        disk._apply(Persist(Lsn(first), entries))
    return disk


def test_a_snapshot_beside_the_log_changes_nothing() -> None:
    disk = disk_with(SnapshotMeta(entry_id(1, 2), ((1, 1),)), 2, txn(1, 1), txn(1, 2))  # type: ignore[arg-type]
    assert not is_replaced(disk)
    assert durable_head(disk) == entry_id(1, 3)
    found = ShadowLog.found(disk)
    assert (found.base, found.head) == (entry_id(1, 1), entry_id(1, 3))


@pytest.mark.parametrize("head", [entry_id(3, 2), entry_id(3, 9)], ids=["another entry there", "beyond the end"])
def test_a_snapshot_the_log_does_not_hold_takes_its_place(head: object) -> None:
    disk = disk_with(SnapshotMeta(head), 1, barrier(1), txn(1, 1))  # type: ignore[arg-type]
    assert is_replaced(disk)
    assert durable_head(disk) == head
    assert ShadowLog.found(disk).head == head
    assert durable_epoch_at(disk, 1) == 0
