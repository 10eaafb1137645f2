"""What nodes may write into their logs, and cut from them."""

import pytest
from tests.lab.sim.checkers.scene import Scene, barrier, entry_id, txn

from penstock.kernel.effects import Persist, SaveState, TrimLog, TruncateLog
from penstock.kernel.ids import Epoch, Lsn, Offset
from penstock.quorum.records.entry import Confirm, Entry, Rollback
from penstock.quorum.records.state import NodeState, SnapshotMeta


def led() -> Scene:
    """Node a leads epoch 1: barrier at 1, its CONFIRM at 2."""
    scene = Scene()
    scene.elect(1, "a", "bc")
    assert [type(entry).__name__ for entry in scene["a"].log.entries] == ["Barrier", "Confirm"]
    return scene


def write(scene: Scene, *entries: Entry, name: str = "a") -> None:
    host = scene[name]
    scene.checks.logs.wrote(host, [Persist(Lsn(host.log.end + 1), entries)])


def test_only_a_leader_appends_and_only_in_its_epoch() -> None:
    scene = led()
    with pytest.raises(AssertionError, match="I2: b appends"):
        write(scene, txn(2, 1), name="b")
    with pytest.raises(AssertionError, match="I2: a appends"):
        write(led(), barrier(2))


def test_an_epoch_begins_with_its_barrier() -> None:
    scene = Scene()
    scene.checks.book.write((scene["b"].node.name, 1), 1, txn(1, 1), 0)
    with pytest.raises(AssertionError, match="I3"):
        write(scene, txn(1, 1), name="b")
    other = led()
    other.checks.book.write((other["a"].node.name, 1), 3, barrier(1), 1)
    with pytest.raises(AssertionError, match="I3"):
        write(other, barrier(1))


@pytest.mark.parametrize(
    ("upto", "why"), [(3, r"I6: CONFIRM\(3\) at 3"), (2, "covers no TXN"), (1, "behind CONFIRM"), (0, "names epoch 0")]
)
def test_what_a_confirm_may_say(upto: int, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        write(led(), Confirm(Epoch(1), Offset(upto)))


def test_a_confirm_does_not_run_ahead_of_commit() -> None:
    with pytest.raises(AssertionError, match=r"I6: CONFIRM.*a has committed 2"):
        write(led(), txn(1, 1), Confirm(Epoch(1), Offset(3)))


@pytest.mark.parametrize(
    ("entries", "first", "why"),
    [
        ((), 2, "a has committed 2"),
        ((txn(1, 1, is_sync=False),), 3, "async"),
        ((txn(1, 1), Rollback(Epoch(1), Offset(3)), txn(1, 2)), 4, "ROLLBACK of Rollback"),
    ],
)
def test_what_a_rollback_may_doom(entries: tuple[Entry, ...], first: int, why: str) -> None:
    with pytest.raises(AssertionError, match=rf"I8.*{why}"):
        write(led(), *entries, Rollback(Epoch(1), Offset(first)))


def test_ranges_are_disjoint_or_nested() -> None:
    scene = led()
    write(scene, txn(1, 1), txn(1, 2), Rollback(Epoch(1), Offset(4)), Rollback(Epoch(1), Offset(3)))
    assert scene.checks.logs.is_doomed_anywhere(1, 4)
    write(scene, txn(1, 3), txn(1, 4), Rollback(Epoch(1), Offset(7)))
    scene.checks.logs.rollbacks[1][-1] = (6, 9)
    with pytest.raises(AssertionError, match="neither disjoint nor nested"):
        scene.checks.logs._rollback(scene["a"], 10, Rollback(Epoch(1), Offset(8)))


def test_nothing_applied_or_confirmed_is_truncated() -> None:
    scene = led()
    host = scene["b"]
    assert host.record.confirmed == 1
    scene.checks.logs.cut(host, [TruncateLog(Lsn(1))])
    with pytest.raises(AssertionError, match=r"I5.*has applied 1"):
        scene.checks.logs.cut(host, [TruncateLog(Lsn(0))])
    host.applied = 0
    with pytest.raises(AssertionError, match=r"I5.*below CONFIRM"):
        scene.checks.logs.cut(host, [TruncateLog(Lsn(0))])


def test_trimming_waits_for_a_durable_snapshot() -> None:
    scene = led()
    with pytest.raises(AssertionError, match="durable snapshot is at 0"):
        scene.checks.logs.cut(scene["b"], [TrimLog(Lsn(2))])


def test_a_snapshot_which_the_log_does_not_hold_takes_its_place() -> None:
    scene = led()
    host = scene["b"]
    state = NodeState(host.member, Epoch(1), Offset(9), SnapshotMeta(entry_id(1, 9)))
    scene.checks.logs.cut(host, [SaveState(state), TruncateLog(Lsn(0))])
    assert host.log.head == entry_id(1, 9)
    with pytest.raises(AssertionError, match="P14"):
        scene.checks.logs.cut(scene["c"], [SaveState(state)])


def test_a_restart_finds_what_the_disk_has() -> None:
    scene = led()
    node = scene["b"].node
    node.crash()
    node.boot()
    assert scene["b"].confirmed == 1
    node.crash()
    scene["b"].record.confirmed = 2
    with pytest.raises(AssertionError, match="forgotten that 2 is confirmed"):
        node.boot()
