"""Nodes that may lead, and nodes that could."""

import pytest
from tests.lab.sim.checkers.scene import Scene, barrier, txn


def test_a_leader_was_fenced_into_its_epoch_in_this_run() -> None:
    scene = Scene()
    scene.elect(1, "a", "bc")
    host = scene["a"]
    host.leads, host.fenced = 0, 7
    with pytest.raises(AssertionError, match="P9: a leads 1, but was fenced into 7"):
        scene.checks.elections.stepped(host)
    host.fenced = 1
    with pytest.raises(AssertionError, match="for the second time"):
        scene.checks.elections.stepped(host)


def test_an_epoch_has_one_leader() -> None:
    scene = Scene()
    scene.elect(1, "a", "bc")
    scene["a"].leads = 0
    scene.checks.elections.leaders[scene["a"].core.epoch] = (scene["b"].node.name, 1)  # type: ignore[union-attr]
    with pytest.raises(AssertionError, match="I2"):
        scene.checks.elections.stepped(scene["a"])


def test_a_leader_has_what_lower_epochs_committed() -> None:
    scene = Scene()
    scene.hold("a", barrier(1), txn(1, 1))
    scene.checks.book.claim("a", scene["a"].log, 2)
    scene.checks.commits.committed[1] = 2  # type: ignore[index]
    scene.elect(1, "b")
    with pytest.raises(AssertionError, match="I5: c leads 3 without 1/2"):
        scene.elect(3, "c")


def test_a_bad_election_is_seen_before_it_happens() -> None:
    """Committed on a and b; once b has lost it, b and c could elect without it, whatever the election."""
    scene = Scene()
    scene.elect(1, "a", "bc")
    scene.hold("a", txn(1, 1))
    scene.hold("b", txn(1, 1))
    scene.checks.book.claim("a", scene["a"].log, 3)
    scene.checks.elections.check_electable(scene.ensemble)
    del scene["b"].node.disk.records[2:]
    with pytest.raises(AssertionError, match="I22: b, whose log ends at 1/2, could be elected without 1/3"):
        scene.checks.elections.check_electable(scene.ensemble)


def test_a_member_which_lost_its_disk_elects_nobody() -> None:
    scene = Scene()
    scene.elect(1, "a", "bc")
    scene.hold("a", txn(1, 1))
    scene.hold("b", txn(1, 1))
    scene.checks.book.claim("a", scene["a"].log, 3)
    before = scene.ensemble
    node = scene["b"].node
    node.crash()
    node.disk.wipe()
    node.boot()
    scene.checks.elections.check_electable(before)
