"""What may leave a node or an operator."""

from typing import Any

import pytest
from tests.lab.sim.checkers.scene import OPERATOR, Scene, entry_id

from penstock.kernel.effects import Persist, TruncateLog
from penstock.kernel.ids import Epoch, Incarnation, Instant, Lsn, NodeId
from penstock.quorum.records.messages import AddEntryResponse, BecomeLeaderRequest, FenceRequest, FenceResponse

I1 = Incarnation("i1")


def led() -> Scene:
    scene = Scene()
    scene.elect(1, "a", "bc")
    return scene


def says(scene: Scene, message: Any, name: str = "b") -> None:
    scene.checks.wire.node_sends(scene[name], message)


def test_nothing_older_than_a_fence_leaves_a_node() -> None:
    scene = led()
    ack = AddEntryResponse(Epoch(1), I1, entry_id(1, 2))
    says(scene, ack)
    scene.say("b", FenceRequest(Epoch(2), I1))
    with pytest.raises(AssertionError, match="I18: b was fenced into 2"):
        says(scene, ack)


def test_a_promise_outlives_the_process() -> None:
    scene = led()
    scene.say("b", FenceRequest(Epoch(2), I1))
    scene.settle()
    node = scene["b"].node
    node.crash()
    node.boot()
    assert scene["b"].fenced == 0
    with pytest.raises(AssertionError, match="I18: b was fenced into 2"):
        says(scene, AddEntryResponse(Epoch(1), I1, entry_id(1, 2)))


def test_an_acknowledgement_names_what_is_durable() -> None:
    with pytest.raises(AssertionError, match="P13: b acknowledges 1/3"):
        says(led(), AddEntryResponse(Epoch(1), I1, entry_id(1, 3)))


def test_an_answer_carries_its_own_incarnation() -> None:
    with pytest.raises(AssertionError, match="P14"):
        says(led(), AddEntryResponse(Epoch(1), Incarnation("i2"), entry_id(1, 2)))


def test_a_fence_is_answered_with_the_durable_head_when_nothing_is_under_way() -> None:
    scene = led()
    says(scene, FenceResponse(Epoch(1), I1, entry_id(1, 2)))
    with pytest.raises(AssertionError, match="P9: b says 1/1, its disk 1/2"):
        says(scene, FenceResponse(Epoch(1), I1, entry_id(1, 1)))
    with pytest.raises(AssertionError, match="before it is durable"):
        says(scene, FenceResponse(Epoch(2), I1, entry_id(1, 2)))
    disk = scene["b"].node.disk
    disk.submit(Instant(0), TruncateLog(Lsn(1)))
    says(scene, FenceResponse(Epoch(1), I1, entry_id(1, 1)))
    disk.submit(Instant(0), Persist(Lsn(2), ("x",)))
    with pytest.raises(AssertionError, match="while writes are under way"):
        says(scene, FenceResponse(Epoch(1), I1, entry_id(1, 1)))


def test_one_node_is_told_to_lead_by_who_wrote_the_epoch() -> None:
    scene = led()
    wire, message = scene.checks.wire, BecomeLeaderRequest(Epoch(1), I1, scene.ensemble, ())
    wire.operator_sends((OPERATOR, 1), NodeId("a"), message)
    with pytest.raises(AssertionError, match="P9: BecomeLeader"):
        wire.operator_sends((OPERATOR, 1), NodeId("b"), message)
    with pytest.raises(AssertionError, match=r"P9: .*which .* wrote"):
        wire.operator_sends((OPERATOR, 2), NodeId("a"), message)
    with pytest.raises(AssertionError, match="which nobody wrote"):
        wire.operator_sends((OPERATOR, 1), NodeId("a"), FenceRequest(Epoch(5), I1))
