"""The simulated process keeps the order of effects, and its lives apart."""

from random import Random

from tests.lab.sim.machines import Add, CounterProgram, machine_of

from penstock.kernel.ids import MILLISECOND, Instant, NodeId
from penstock_lab.sim.disk import DiskFaults
from penstock_lab.sim.node import Clock, SimNode
from penstock_lab.sim.trace import Trace
from penstock_lab.sim.world import World

A, B = NodeId("a"), NodeId("b")


def world_of_two(seed: int = 1, *, ticking: bool = False) -> tuple[World, SimNode, SimNode]:
    world = World(Random(seed), trace=Trace(keep=True))
    nodes = [world.add_node(name, CounterProgram(ticking=ticking)) for name in (A, B)]
    for node in nodes:
        node.boot()
    return world, nodes[0], nodes[1]


def test_what_stands_behind_a_persist_waits_for_it() -> None:
    world, a, b = world_of_two()
    a.disk.faults = DiskFaults(latency_min_ns=5 * MILLISECOND, latency_mean_ns=0)
    world.send(B, A, Add(7))
    world.run(Instant(4 * MILLISECOND))
    assert a.disk.records == []
    assert "Received" not in machine_of(b).seen
    world.run(Instant(20 * MILLISECOND))
    assert a.disk.records == [7]
    marks = [line.split(maxsplit=3) for line in world.trace.lines]
    story = [
        (who, mark, what.split("(")[0])
        for _, who, mark, what in marks
        if "Add" in what or "Persist" in what or "Done" in what
    ]
    assert story == [
        ("a", "<", "Received"),
        ("a", ">", "Persist"),
        ("a", ">", "Send"),
        ("a", "<", "Persisted"),
        ("b", "<", "Received"),
    ]


def test_later_lists_do_not_wait_for_an_earlier_persist() -> None:
    world, a, _ = world_of_two(ticking=True)
    a.disk.faults = DiskFaults(latency_min_ns=50 * MILLISECOND, latency_mean_ns=0)
    world.send(B, A, Add(1))
    world.run(Instant(20 * MILLISECOND))
    assert machine_of(a).ticks >= 10
    assert machine_of(a).durable == 0


def test_a_crash_loses_what_was_not_durable_and_keeps_what_was() -> None:
    world, a, _ = world_of_two()
    world.send(B, A, Add(1))
    world.run(Instant(10 * MILLISECOND))
    a.disk.faults = DiskFaults(latency_min_ns=50 * MILLISECOND, latency_mean_ns=0)
    world.send(B, A, Add(2))
    world.run(Instant(20 * MILLISECOND))
    a.crash()
    a.boot()
    assert machine_of(a).numbers in ([1], [1, 2])
    assert machine_of(a).boots == 2


def test_both_fates_of_an_unsynced_write_occur() -> None:
    fates = set()
    for seed in range(20):
        world, a, _ = world_of_two(seed)
        a.disk.faults = DiskFaults(latency_min_ns=50 * MILLISECOND, latency_mean_ns=0)
        world.send(B, A, Add(2))
        world.run(Instant(20 * MILLISECOND))
        a.crash()
        a.boot()
        fates.add(tuple(machine_of(a).numbers))
    assert fates == {(), (2,)}


def test_what_an_earlier_life_started_never_reaches_a_later_one() -> None:
    world, a, b = world_of_two(ticking=True)
    a.disk.faults = DiskFaults(latency_min_ns=50 * MILLISECOND, latency_mean_ns=0)
    world.send(B, A, Add(1))
    world.run(Instant(10 * MILLISECOND))
    a.crash()
    a.boot()
    world.run(Instant(200 * MILLISECOND))
    assert "Persisted" not in machine_of(a).seen
    assert "Received" not in machine_of(b).seen


def test_a_paused_process_handles_everything_when_it_thaws() -> None:
    world, a, b = world_of_two()
    world.send(B, A, Add(1))
    a.pause()
    world.run(Instant(10 * MILLISECOND))
    assert machine_of(a).numbers == []
    a.resume()
    world.run(Instant(20 * MILLISECOND))
    assert machine_of(a).numbers == [1]
    assert machine_of(b).seen.count("Received") == 1


def test_a_write_which_ends_during_a_pause_is_durable_but_unnoticed() -> None:
    world, a, b = world_of_two()
    a.disk.faults = DiskFaults(latency_min_ns=5 * MILLISECOND, latency_mean_ns=0)
    world.send(B, A, Add(1))
    world.run(Instant(3 * MILLISECOND))
    a.pause()
    world.run(Instant(20 * MILLISECOND))
    assert a.disk.records == [1]
    assert "Received" not in machine_of(b).seen
    a.resume()
    world.run(Instant(40 * MILLISECOND))
    assert "Received" in machine_of(b).seen


def test_a_failed_write_stops_the_process() -> None:
    world, a, _ = world_of_two()
    world.run(Instant(5 * MILLISECOND))
    a.disk.faults.fail = 1.0
    world.send(B, A, Add(1))
    world.run(Instant(20 * MILLISECOND))
    assert not a.is_up
    assert a.stopped_because == "the simulated disk failed"


def test_timers_follow_the_nodes_own_clock() -> None:
    world = World(Random(1))
    fast = world.add_node(A, CounterProgram(ticking=True), clock=Clock(offset_ns=10**12, rate_ppm=1_050_000))
    slow = world.add_node(B, CounterProgram(ticking=True), clock=Clock(rate_ppm=950_000))
    fast.boot()
    slow.boot()
    world.run(Instant(1000 * MILLISECOND + 2000))  # each tick may be rounded up by a nanosecond
    assert (machine_of(fast).ticks, machine_of(slow).ticks) == (1050, 950)


def test_messages_to_a_dead_process_are_lost() -> None:
    world, a, b = world_of_two()
    world.send(B, A, Add(1))
    a.crash()
    world.run(Instant(10 * MILLISECOND))
    a.boot()
    world.run(Instant(20 * MILLISECOND))
    assert machine_of(a).numbers == []
    assert "Received" not in machine_of(b).seen
