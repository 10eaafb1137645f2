"""What state machines may be given."""

import pytest
from tests.lab.sim.checkers.scene import Scene, barrier, entry_id, txn

from penstock.kernel.ids import Epoch, Offset
from penstock.quorum.records.effects import Apply
from penstock.quorum.records.entry import Rollback
from penstock.quorum.records.state import SnapshotMeta


def rolled_back() -> Scene:
    """Everybody holds a barrier, a doomed transaction, its ROLLBACK and a good one; all of it is committed."""
    scene = Scene()
    for name in "abc":
        scene.hold(name, barrier(1), txn(1, 1), Rollback(Epoch(1), Offset(2)), txn(1, 2))
        scene[name].known = 4
    scene.checks.book.claim("a", scene["a"].log, 4)
    return scene


def apply(scene: Scene, *entries: object, doomed: tuple[int, ...] = ()) -> None:
    scene.checks.applies.apply(scene["b"], Apply(Offset(1), entries, doomed))  # type: ignore[arg-type]


def test_everybody_applies_the_committed_log() -> None:
    scene = rolled_back()
    entries = scene["b"].log.entries
    apply(scene, *entries, doomed=(2,))
    with pytest.raises(AssertionError, match=r"I10.*applies 2, doomed: True"):
        apply(scene, *entries)
    with pytest.raises(AssertionError, match=r"I10: b applies Txn.*at 1"):
        apply(scene, txn(1, 9))
    with pytest.raises(AssertionError, match="I10: b applies up to 5"):
        apply(scene, *entries, txn(1, 9), doomed=(2,))


def test_nobody_applies_more_than_it_knows() -> None:
    scene = rolled_back()
    scene["b"].known = 3
    with pytest.raises(AssertionError, match="I11: b applies 4, and is confirmed to 3"):
        apply(scene, *scene["b"].log.entries, doomed=(2,))


def test_what_a_snapshot_says_of_the_log() -> None:
    scene = rolled_back()

    def take(head: object, epochs: object = ((1, 1),), doomed: object = ((2, 3),)) -> None:
        scene.checks.applies.snapshot(scene["b"], SnapshotMeta(head, epochs, doomed))  # type: ignore[arg-type]

    take(entry_id(1, 4))
    with pytest.raises(AssertionError, match="I9"):
        take(entry_id(1, 2), doomed=())
    with pytest.raises(AssertionError, match="not committed"):
        take(entry_id(1, 5))
    with pytest.raises(AssertionError, match="has 2 begin at 4"):
        take(entry_id(1, 4), epochs=((2, 4),))
    with pytest.raises(AssertionError, match=r"says \[\] is doomed"):
        take(entry_id(1, 4), doomed=())


def test_a_state_machine_is_the_fold_of_the_log_and_never_goes_back() -> None:
    scene = rolled_back()
    applies, host = scene.checks.applies, scene["b"]
    applies.state(host, 4, {b"k": [b"c.2"]})
    with pytest.raises(AssertionError, match="I10"):
        applies.state(host, 4, {b"k": [b"c.1", b"c.2"]})
    host.applied = 4
    with pytest.raises(AssertionError, match="I5: b goes back from 4"):
        applies.restores(host, SnapshotMeta(entry_id(1, 3), ((1, 1),), ((2, 3),)))  # type: ignore[arg-type]
