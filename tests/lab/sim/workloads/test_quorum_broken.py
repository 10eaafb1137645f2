"""Mutants which random seeds meet rarely, each in a schedule of its own which the unbroken log passes."""

from collections.abc import Callable

import pytest
from tests.lab.sim.checkers.scene import entry_id
from tests.lab.sim.workloads.stage import Stage

from penstock.kernel.effects import Received
from penstock.kernel.ids import Epoch, NodeId
from penstock.quorum.core.operator import Elect, Reconfigure
from penstock.quorum.records.entry import Confirm
from penstock.quorum.records.messages import (
    Change,
    ChangeOp,
    CommitReconfigurationResponse,
    TruncateRequest,
)
from penstock.quorum.records.metadata import Status
from penstock_lab.sim.workloads import quorum_broken as broken

Schedule = Callable[[str | None], None]


def led_by_a(stage: Stage) -> None:
    """Let the first operator elect a."""
    operator = stage.operator()
    stage.until(lambda: stage.cell.metadata.status is Status.STEADY_STATE)
    if stage.leader != "a":
        stage.ask(operator, Elect(NodeId("a")))
    stage.until(lambda: stage.cell.metadata.status is Status.STEADY_STATE and stage.leader == "a")
    stage.run(20)


def the_new_node_has_the_last_word(mutant: str | None) -> None:
    """S22: a swap b → d is in COMMIT and the leader counts {a, c, d} when the operator dies; then x is committed by a
    and d alone. The next leader has x.
    """
    stage = Stage("abcd", "abc", mutant)
    led_by_a(stage)
    operator = stage.world.nodes[NodeId("op1")]
    stage.when_sent(CommitReconfigurationResponse, lambda *_: operator.crash())
    stage.ask(operator, Reconfigure(Change(ChangeOp.SWAP, stage["b"].member, stage["d"].member)))
    stage.until(lambda: not operator.is_up)
    assert stage.cell.metadata.status is Status.RECONFIGURATION
    stage.part("ad", "bc", "op1")
    x = stage.append("a", 1)
    stage.until(lambda: stage.fate(x) == "committed")
    operator.boot()
    stage.run(200)
    stage.heal()
    stage.until(lambda: stage.cell.metadata.status is Status.STEADY_STATE and stage.leader in "acd")


def two_entries_at_one_offset(mutant: str | None) -> None:
    """S20: a has (1,3) alone, then b (2,3) alone, then a (3,4) alone; when b leads epoch 4, one round of Truncate
    leaves a with (1,3), which b does not hold."""
    stage = Stage("abc", "abc", mutant)
    stage.elect(1, "a", "bc")
    stage.part("a", "bc")
    stage.part("b", "c")
    stage.append("a", 1)
    stage.run(5)
    stage.elect(2, "b", "c")
    stage.elect(3, "a", "c")
    stage.heal()
    stage.elect(4, "b", "ac")
    stage.run(50)
    assert {stage.core(name).log.head for name in "abc"} == {entry_id(4, 5)}


def a_confirm_is_truncated_and_the_node_restarts(mutant: str | None) -> None:
    """A fence comes while a CONFIRM is on its way to b's disk, so the fence's own save does not know it; then the next
    leader truncates that CONFIRM, and b restarts. Its statement is still a fact.
    """
    stage = Stage("abc", "abc", mutant)
    stage.elect(1, "a", "bc")
    b = stage["b"]
    stage.part("c", "ab")
    x = stage.append("a", 1)
    stage.until(lambda: stage.fate(x) == "committed")
    b.node.disk.faults.slow_factor = 100
    is_confirmed = lambda: any(type(entry) is Confirm and entry.upto >= 3 for entry in b.log.entries)  # noqa: E731
    stage.until(is_confirmed)
    stage.write(stage.cell.metadata.in_election(Epoch(2)))
    stage.fence(2, "b")
    stage.part("a", "bc")
    stage.run(100)
    b.node.disk.faults.slow_factor = 1
    assert stage.core("b").log.confirmed >= 3
    assert b.node.disk.state.confirmed < 3
    leader = stage["c"]
    assert leader.log.end < b.log.end
    log = stage.core("b").log
    truncate = TruncateRequest(Epoch(2), b.member.incarnation, log.id_at(b.record.confirmed), log.head)  # type: ignore[arg-type]
    b.node.deliver(Received(NodeId("c"), truncate))
    stage.run(5)
    b.node.crash()
    b.node.boot()
    assert stage.core("b").log.confirmed >= 3


def a_late_truncate_reaches_a_follower(mutant: str | None) -> None:
    """A second copy of a Truncate comes when a follows already, and a's vote has committed the barrier."""
    stage = Stage("abc", "abc", mutant)
    stage.elect(1, "a", "bc")
    stage.part("a", "bc")
    stage.append("a", 1)
    stage.run(5)
    late: list[TruncateRequest] = []
    stage.when_sent(TruncateRequest, lambda source, to, message: late.append(message))
    stage.heal()
    stage.part("c", "ab")
    stage.elect(2, "b", "a", settles=False)
    stage.until(lambda: stage.core("b").replica.commit >= 3)
    stage["a"].node.deliver(Received(NodeId("b"), late[0]))
    stage.run(50)
    assert stage.core("a").log.head == stage.core("b").log.head


def a_read_on_a_leader_which_is_over(mutant: str | None) -> None:
    """S14: a is cut off and does not know that b leads; what b committed was answered before the read came to a."""
    stage = Stage("abc", "abc", mutant)
    stage.elect(1, "a", "bc")
    stage.part("a", "bc")
    stage.elect(2, "b", "c")
    x = stage.append("b", 1)
    stage.until(lambda: stage.fate(x) == "committed")
    stage.run(1)
    read = stage.read("a")
    stage.run(50)
    stage.heal()
    stage.run(50)
    assert read.served_at or read.is_answered or stage.core("a").leader is None
    stage.checks.reads.finish()


SCHEDULES: dict[str, tuple[Schedule, dict[str, str]]] = {
    "the new node has the last word": (
        the_new_node_has_the_last_word,
        {"fences-old-ensemble": "I5: c leads", "forgets-change": "I22: "},
    ),
    "two entries at one offset": (two_entries_at_one_offset, {"truncates-once": "I17: b believes a#i1 holds 2/3"}),
    "a CONFIRM is truncated": (
        a_confirm_is_truncated_and_the_node_restarts,
        {"forgets-confirmed": "P4: b has forgotten"},
    ),
    "a read on a leader which is over": (a_read_on_a_leader_which_is_over, {"reads-without-round": "I24: "}),
    "a late Truncate": (a_late_truncate_reaches_a_follower, {"truncates-own-epoch": "I22: "}),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_unbroken_log_passes(name: str) -> None:
    SCHEDULES[name][0](None)


@pytest.mark.parametrize(
    ("name", "mutant"), [(name, mutant) for name, (_, mutants) in SCHEDULES.items() for mutant in mutants]
)
def test_the_mutant_is_caught(name: str, mutant: str) -> None:
    schedule, mutants = SCHEDULES[name]
    with pytest.raises(AssertionError, match=mutants[mutant]):
        schedule(mutant)


@pytest.mark.parametrize("name", broken.__all__)
def test_a_broken_part_overrides_what_is_there(name: str) -> None:
    """A method which was renamed in the core would leave its mutant whole."""
    kind = getattr(broken, name)
    own = {method for method, value in vars(kind).items() if callable(getattr(value, "__func__", value))}
    missing = {method for method in own if not any(method in vars(base) for base in kind.__mro__[1:])}
    assert not missing
