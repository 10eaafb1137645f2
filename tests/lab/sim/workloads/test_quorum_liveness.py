"""Liveness under faults that last: B1, B2 and B13 of operating.md as directed schedules, each with its mutants."""

from collections.abc import Callable

import pytest
from tests.lab.sim.workloads.stage import Stage

from penstock.kernel.ids import MILLISECOND, Instant, NodeId
from penstock.quorum.core.operator import Elect
from penstock.quorum.records.messages import DrainRequest
from penstock.quorum.records.metadata import PeerLost, Status

Schedule = Callable[[str | None], None]


def is_steady(stage: Stage, leaders: str = "abc") -> bool:
    return stage.cell.metadata.status is Status.STEADY_STATE and stage.leader in leaders


def led_by_a(stage: Stage) -> None:
    """Let the first operator elect a."""
    operator = stage.operator()
    stage.until(lambda: is_steady(stage))
    stage.run(5)
    if stage.leader != "a":
        stage.ask(operator, Elect(NodeId("a")))
    stage.until(lambda: is_steady(stage, "a"))
    stage.run(20)


def a_leader_that_only_the_operator_reaches(mutant: str | None) -> None:
    """B1: a is cut off from b and c, and the operator reaches all three. Its head is the highest."""
    stage = Stage("abc", "abc", mutant)
    led_by_a(stage)
    stage.part("a", "bc")
    stage.append("a", 1)
    stage.append("a", 2)
    stage.until(lambda: is_steady(stage, "bc"), ms=400)
    x = stage.append(stage.leader, 3)
    stage.until(lambda: stage.fate(x) == "committed", ms=50)
    assert stage.cell.metadata.epoch <= 3
    stage.heal()
    stage.run(100)
    assert {stage.core(name).log.head for name in "abc"} == {stage.core("b").log.head}


def the_stalled_leader_holds_what_is_committed(mutant: str | None) -> None:
    """B1: a and b have committed x, and c lacks it. When a stalls, b answers late: c must not lead."""
    stage = Stage("abc", "abc", mutant)
    led_by_a(stage)
    stage.part("c", "ab")
    x = stage.append("a", 1)
    stage.until(lambda: stage.fate(x) == "committed")
    stage.run(20)
    stage["b"].node.disk.faults.slow_factor = 2_000
    stage.part("a", "bc")
    stage.run(400)
    stage["b"].node.disk.faults.slow_factor = 1
    stage.heal()
    stage.until(lambda: is_steady(stage), ms=2_000)


def an_operator_that_was_frozen(mutant: str | None) -> None:
    """B2: the operator's process sleeps for two of its patiences; its leader has been well all the time."""
    stage = Stage("abc", "abc", mutant)
    led_by_a(stage)
    epoch, operator = stage.cell.metadata.epoch, stage.world.nodes[NodeId("op1")]
    for _ in range(3):
        stage.run(20)
        operator.pause()
        stage.run(100)
        operator.resume()
        stage.run(50)
    assert stage.cell.metadata.epoch == epoch, "it deposed a leader that was well"


def a_leader_whose_process_ends(mutant: str | None) -> None:
    """A connection that is refused tells of the end of a process at once, not after the failure time."""
    stage = Stage("abc", "abc", mutant)
    led_by_a(stage)
    stage["a"].node.crash()
    stage.world.nodes[NodeId("op1")].deliver(PeerLost(NodeId("a"), is_refused=True))
    stage.until(lambda: is_steady(stage, "bc"), ms=15)


def disks_that_take_longer_than_an_election(mutant: str | None) -> None:
    """B1: every write takes several times as long as an election may: some election must end all the same."""
    stage = Stage("abc", "abc", mutant)
    for name in "abc":
        stage[name].node.disk.faults.slow_factor = 2_000
    stage.operator()
    stage.until(lambda: is_steady(stage), ms=3_000)


def a_hand_over_under_load(mutant: str | None) -> None:
    """B13: c takes over from a, whose clients continue. No client is left in doubt, and c leads."""
    for seed in range(6):
        hand_over(Stage("abc", "abc", mutant), seed)


def hand_over(stage: Stage, seed: int) -> None:
    led_by_a(stage)
    requests = [stage.append("a", number) for number in range(1, 5)]
    stage["c" if seed > 2 else "b"].node.disk.faults.slow_factor = 1 + 10 * (seed % 3)
    step = (MILLISECOND // 4, MILLISECOND)[seed % 2]
    drains: list[NodeId] = []
    stage.when_sent(DrainRequest, lambda source, to, message: drains.append(to))
    stage.ask(stage.world.nodes[NodeId("op1")], Elect(NodeId("c")))
    for number in range(5, 40):
        requests.append(stage.append("a", number))
        stage.world.run(Instant(stage.world.now + step))
    stage.until(lambda: is_steady(stage, "bc"))
    stage.run(50)
    assert drains == ["a"], "it was not asked to drain"
    fates = {stage.fate(request) for request in requests}
    assert fates <= {"committed", "aborted", "not-leader"}, f"{fates}: a client is left in doubt"
    aborted = [request for request in requests if stage.fate(request) == "aborted"]
    assert not any(stage.checks.history.attempts[request].entry.offset for request in aborted), "none was written"
    assert stage.leader == "c", "c was to lead"


NEVER = "it never came to that"
SCHEDULES: dict[str, tuple[Schedule, dict[str, str]]] = {
    "a leader that only the operator reaches": (
        a_leader_that_only_the_operator_reaches,
        {"keeps-a-stalled-leader": NEVER, "elects-the-stalled-again": NEVER},
    ),
    "the stalled leader holds what is committed": (
        the_stalled_leader_holds_what_is_committed,
        {"counts-the-stalled-out": "I5: "},
    ),
    "an operator that was frozen": (an_operator_that_was_frozen, {"counts-its-own-pauses": "it deposed a leader"}),
    "a leader whose process ends": (a_leader_whose_process_ends, {"ignores-closed-connections": NEVER}),
    "disks that take longer than an election": (
        disks_that_take_longer_than_an_election,
        {"never-doubles-its-patience": NEVER},
    ),
    "a hand-over under load": (
        a_hand_over_under_load,
        {
            "takes-appends-in-a-drain": f"left in doubt|was to lead|{NEVER}",
            "fences-before-it-is-drained": f"left in doubt|was to lead|{NEVER}",
            "does-not-wait-for-the-successor": f"was to lead|{NEVER}",
        },
    ),
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
