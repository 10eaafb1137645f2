import pytest
from tests.quorum.core.cluster import entry_id
from tests.quorum.core.single import E1, A, Single, txn

from penstock.kernel.effects import Persist, SaveState, TrimLog
from penstock.kernel.ids import Lsn, Offset
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.log import Log
from penstock.quorum.core.replica import Replica
from penstock.quorum.records.effects import Apply, SnapshotTaken, TakeSnapshot
from penstock.quorum.records.entry import Barrier, Confirm, Entry
from penstock.quorum.records.state import NO_SNAPSHOT, NodeState, SnapshotMeta


def replica_of(*entries: Entry, config: NodeConfig | None = None) -> Replica:
    log = Log(NO_SNAPSHOT, Offset(0), 1 << 20)
    log.recover(Offset(1), entries)
    return Replica(NodeState(A, E1, is_formatted=True), log, config or NodeConfig())


def test_one_step_makes_one_persist_behind_everything_else() -> None:
    replica = replica_of()
    replica.append((Barrier(E1),))
    replica.append((txn("x", 1),))
    assert replica.take_effects() == [Persist(Lsn(1), (Barrier(E1), txn("x", 1)))]
    assert replica.take_effects() == []


def test_a_state_is_saved_before_what_is_appended_with_it() -> None:
    replica = replica_of()
    replica.save()
    replica.append((Barrier(E1),))
    kinds = [type(effect) for effect in replica.take_effects()]
    assert kinds == [SaveState, Persist]
    replica.append((txn("x", 1),))
    with pytest.raises(AssertionError):
        replica.save()


def test_the_state_machine_gets_one_piece_at_a_time() -> None:
    entries = (Barrier(E1), txn("x", 1), txn("y", 2), Confirm(E1, Offset(3)))
    replica = replica_of(*entries, config=NodeConfig(apply_bytes_max=140))
    replica.apply(Offset(3))
    assert replica.take_effects() == [Apply(Offset(1), entries[:2])]
    replica.apply(Offset(3))
    assert replica.take_effects() == [], "it is busy"
    replica.has_applied(Offset(2), 0)
    replica.apply(Offset(3))
    assert replica.take_effects() == [Apply(Offset(3), entries[2:3])]


def test_snapshots_and_trimming_go_hand_in_hand() -> None:
    single = Single(config=NodeConfig(snapshot_entries=2, retain_entries=1))
    single.lead(1, "A")
    single.sync()
    single.apply()
    single.append("x")
    single.sync()
    effects = single.apply()
    snapshot = SnapshotMeta(entry_id(1, 3), ((E1, Offset(1)),))
    assert TakeSnapshot(snapshot) in effects
    assert not any(isinstance(effect, TakeSnapshot) for effect in single.last if effect not in effects)
    saved = single.step(SnapshotTaken(snapshot))
    assert [effect for effect in saved if isinstance(effect, SaveState)] == [
        SaveState(NodeState(A, E1, single.node.log.confirmed, snapshot, is_formatted=True))
    ]
    assert single.node.log.first == 1, "nothing goes before the snapshot is the node's own, durably"
    assert TrimLog(Lsn(3)) in single.save()
    assert single.node.log.first == 3


def test_no_snapshot_inside_a_doomed_range() -> None:
    replica = replica_of(Barrier(E1), txn("x", 1))
    replica.log.doomed.append((Offset(2), Offset(3)))
    replica.applied = replica.applying = Offset(2)
    replica.take_snapshot()
    assert replica.take_effects() == []
