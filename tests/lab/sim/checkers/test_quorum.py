"""All checkers together: which one gets which events."""

import pytest
from tests.lab.sim.checkers.scene import OPERATOR, Scene

from penstock.kernel.effects import SaveState, Send
from penstock.kernel.ids import Epoch
from penstock.quorum.records.messages import Change, ChangeOp
from penstock.quorum.records.metadata import Metadata


def test_the_epoch_of_the_metadata_never_falls() -> None:
    scene = Scene()
    scene.elect(2, "a", "bc")
    assert scene.checks.metadata is not None
    with pytest.raises(AssertionError, match="I27"):
        scene.write(scene.checks.metadata.in_election(Epoch(1)))
    assert scene.checks.writers == {2: (OPERATOR, 1)}


def test_who_may_commit_follows_the_metadata() -> None:
    scene = Scene()
    scene.elect(1, "a", "bc")
    a, b, c = scene.ensemble
    steady = Metadata((a, b, c), Epoch(1)).elected(a)
    scene.write(steady)
    preparing = steady.preparing(Change(ChangeOp.CONTRACT, c))
    scene.write(preparing)
    scene.write(preparing.committing_change())
    assert scene.checks.quorums == {1: [(2, (a, b, c))], 2: [(2, (a, b))]}


def test_nothing_but_durable_effects_stands_behind_one() -> None:
    scene = Scene()
    effects = [SaveState(None), Send(OPERATOR, "x")]
    with pytest.raises(AssertionError, match="stands behind a durable effect"):
        scene.checks._saw_effects(scene["a"], effects, 0)


def test_a_changed_disk_is_looked_at_once() -> None:
    scene = Scene()
    scene.elect(1, "a", "bc")
    assert scene.checks._is_stale
    scene.checks.looked()
    assert not scene.checks._is_stale
