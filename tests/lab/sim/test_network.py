"""Links: FIFO by default, and every kind of fault has its effect."""

from random import Random
from typing import Any

from penstock.kernel.ids import MILLISECOND, SECOND, Instant, NodeId
from penstock_lab.sim.network import NetworkFaults
from penstock_lab.sim.world import World

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def arrivals(faults: NetworkFaults, count: int = 200) -> list[int]:
    """Return which of `count` numbered messages from a to b arrive, in which order."""
    world = World(Random(5))
    world.network.faults = faults
    arrived: list[int] = []
    for number in range(count):
        world.network.send(world.now, A, B, number, lambda _, message: arrived.append(message))
    world.run(Instant(10 * SECOND))
    return arrived


def test_a_plain_link_is_fifo_and_loses_nothing() -> None:
    assert arrivals(NetworkFaults()) == list(range(200))


def test_clogged_messages_hold_up_those_behind_them() -> None:
    assert arrivals(NetworkFaults(clog=0.2)) == list(range(200))


def test_dropped_messages_are_gone_and_the_rest_in_order() -> None:
    arrived = arrivals(NetworkFaults(drop=0.3))
    assert 100 < len(arrived) < 180
    assert arrived == sorted(arrived)


def test_duplicates_arrive_twice_and_nothing_is_lost() -> None:
    arrived = arrivals(NetworkFaults(duplicate=0.5))
    assert len(arrived) > 250
    assert sorted(set(arrived)) == list(range(200))


def test_reordered_messages_overtake() -> None:
    arrived = arrivals(NetworkFaults(reorder=0.5, delay_mean_ns=5 * MILLISECOND))
    assert arrived != sorted(arrived)
    assert sorted(arrived) == list(range(200))


def test_a_cut_is_one_way_and_a_partition_both_ways() -> None:
    world = World(Random(1))
    heard: list[tuple[str, Any]] = []

    def send(source: NodeId, to: NodeId) -> None:
        world.network.send(world.now, source, to, f"{source}{to}", lambda _, message: heard.append((to, message)))

    def round_of_all() -> list[str]:
        heard.clear()
        for source in (A, B, C):
            for to in (A, B, C):
                if source != to:
                    send(source, to)
        world.run(Instant(world.now + SECOND))
        return sorted(message for _, message in heard)

    everything = ["ab", "ac", "ba", "bc", "ca", "cb"]
    assert round_of_all() == everything
    world.network.cut_link(A, B)
    assert round_of_all() == ["ac", "ba", "bc", "ca", "cb"]
    world.network.isolate([C], [A, B])
    assert round_of_all() == ["ba"]
    world.network.heal()
    assert round_of_all() == everything
