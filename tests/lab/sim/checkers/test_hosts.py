"""The facts remembered of a member."""

from tests.lab.sim.checkers.scene import Scene, barrier, entry_id, txn

from penstock.kernel.effects import Persist, SaveState, TruncateLog
from penstock.kernel.ids import Epoch, Lsn, Offset
from penstock.quorum.records.entry import Confirm
from penstock.quorum.records.state import NodeState, SnapshotMeta
from penstock_lab.sim.checkers.hosts import HostRecord


def test_what_was_ever_durable_is_remembered() -> None:
    scene, record = Scene(), HostRecord()
    record.see(Persist(Lsn(1), (barrier(1), txn(1, 1), Confirm(Epoch(1), Offset(1)))))
    record.see(TruncateLog(Lsn(1)))
    record.see(Persist(Lsn(2), (barrier(2),)))
    held = [record.has_held(each) for each in (entry_id(1, 3), entry_id(2, 2), entry_id(1, 4), entry_id(2, 3))]
    assert held == [True, True, False, False]
    assert record.confirmed == 1
    record.see(SaveState(NodeState(scene["a"].member, snapshot=SnapshotMeta(entry_id(2, 9)))))
    assert (record.confirmed, record.has_held(entry_id(1, 4))) == (9, True)


def test_a_restart_forgets_the_run_but_not_the_member() -> None:
    scene = Scene()
    scene.elect(1, "a", "bc")
    host = scene["b"]
    host.record.exposed = 1
    host.node.crash()
    host.node.boot()
    assert (host.fenced, host.epoch, host.record.promised, host.record.exposed) == (0, 0, 1, 1)
    assert host.log.head == entry_id(1, 2)
