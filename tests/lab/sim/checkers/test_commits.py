"""Commits are counted over the disks."""

import pytest
from tests.lab.sim.checkers.scene import Scene, entry_id, txn

from penstock.kernel.ids import Epoch, Offset


def test_a_commit_needs_its_quorum_on_the_disks() -> None:
    scene = Scene()
    scene.elect(1, "a", "bc")
    host, core = scene.hold("a", txn(1, 1)), scene["a"].core
    assert core is not None
    with pytest.raises(AssertionError, match=r"I4: a commits 1/3, held by \['a#i1'\]"):
        scene.checks.commits._check_quorum(host, core, Offset(3))
    scene.hold("c", txn(1, 1))
    scene.checks.commits._check_quorum(host, core, Offset(3))


def test_only_the_current_epoch_commits() -> None:
    scene = Scene()
    scene.elect(1, "a", "bc")
    host, core = scene["a"], scene["a"].core
    assert core is not None
    core.replica.epoch = Epoch(2)
    with pytest.raises(AssertionError, match="I4: a commits 1/2 in epoch 2"):
        scene.checks.commits._check_quorum(host, core, Offset(2))


def test_commit_and_confirmed_never_fall() -> None:
    scene = Scene()
    scene.elect(1, "a", "bc")
    host = scene["a"]
    assert host.commit == 2
    host.commit = 5
    with pytest.raises(AssertionError, match="I5: a's commit fell from 5 to 2"):
        scene.checks.commits.stepped(host)
    host.commit, host.confirmed = 2, 5
    with pytest.raises(AssertionError, match="P4: confirmed fell"):
        scene.checks.commits.stepped(host)


def test_a_follower_takes_only_for_committed_what_is() -> None:
    scene = Scene()
    host = scene.hold("b", txn(1, 1))
    assert host.core is not None
    host.core.replica.commit = Offset(1)
    with pytest.raises(AssertionError, match="I5: b takes 1 of 0"):
        scene.checks.commits.stepped(host)


def test_a_cursor_claims_no_more_than_its_follower_held() -> None:
    scene = Scene()
    scene.elect(1, "a", "bc")
    host = scene["a"]
    assert host.core is not None
    assert host.core.leader is not None
    cursor = host.core.leader.replication.cursors.get(scene["b"].member)
    assert cursor is not None
    scene.hold("a", txn(1, 1))
    cursor.last_confirmed = Offset(3)
    with pytest.raises(AssertionError, match="I17: a believes b#i1 holds 1/3"):
        scene.checks.commits.stepped(host)
    cursor.last_confirmed = Offset(1)
    with pytest.raises(AssertionError, match="I17: b#i1's cursor fell"):
        scene.checks.commits.stepped(host)


def test_what_lower_epochs_have_committed() -> None:
    scene = Scene()
    scene.elect(1, "a", "bc")
    scene.elect(2, "b", "ac")
    commits = scene.checks.commits
    assert [commits.before(Epoch(epoch)) for epoch in (1, 2, 3)] == [0, 2, 4]
    assert scene["b"].record.has_held(entry_id(2, 4))
