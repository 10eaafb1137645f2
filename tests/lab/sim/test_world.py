"""The world: time moves only by events, and a seed is a run."""

import subprocess
import sys
from random import Random

import pytest
from tests.lab.sim.machines import Add, CounterProgram, machine_of

from penstock.kernel.ids import Instant, NodeId
from penstock_lab.sim.trace import Trace
from penstock_lab.sim.world import OutOfSteps, World


def test_things_happen_in_order_of_time_then_of_scheduling() -> None:
    world = World(Random(0))
    happened: list[str] = []
    world.at(Instant(5), lambda: happened.append("late"))
    world.at(Instant(3), lambda: happened.append("first"))
    world.at(Instant(3), lambda: happened.append("second"))
    world.after(3, lambda: happened.append("third"))
    assert world.run(Instant(4)) is False
    assert (happened, world.now) == (["first", "second", "third"], 4)
    world.run(Instant(10))
    assert (happened[-1], world.now) == ("late", 10)


def test_running_ends_when_done() -> None:
    world = World(Random(0))
    seen: list[int] = []
    for n in range(10):
        world.at(Instant(n), lambda n=n: seen.append(n))  # type: ignore[misc]
    assert world.run(Instant(100), done=lambda: len(seen) == 3) is True
    assert seen == [0, 1, 2]


def test_a_run_without_end_is_stopped() -> None:
    world = World(Random(0), steps_max=1000)

    def again() -> None:
        world.after(1, again)

    again()
    with pytest.raises(OutOfSteps):
        world.run(Instant(10**9))


def test_the_past_cannot_be_scheduled() -> None:
    world = World(Random(0))
    world.run(Instant(10))
    with pytest.raises(AssertionError, match="is past"):
        world.at(Instant(9), lambda: None)


def digest_of(seed: int) -> str:
    world = World(Random(seed), trace=Trace(keep=True))
    world.network.faults.drop = 0.1
    world.network.faults.duplicate = 0.1
    names = [NodeId(f"n{i}") for i in range(4)]
    for name in names:
        world.add_node(name, CounterProgram(ticking=True)).boot()
    for number in range(50):
        world.send(names[number % 4], names[number % 3], Add(number))
    world.run(Instant(20_000_000))
    assert sum(len(machine_of(world.nodes[name]).numbers) for name in names) > 30
    return world.trace.digest()


def test_one_seed_gives_one_digest_in_two_processes_with_different_hash_seeds() -> None:
    script = "from tests.lab.sim.test_world import digest_of; print(digest_of(42))"
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": hash_seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert digests == {digest_of(42)}
    assert digest_of(43) not in digests
