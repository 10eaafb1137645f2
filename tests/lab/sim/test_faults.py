"""The swarm stays inside the atlas, and the nemesis repairs its own damage."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.lab.sim.machines import CounterProgram

from penstock.kernel.ids import SECOND, Instant, NodeId
from penstock_lab.sim.faults import Atlas, Nemesis, Swarm
from penstock_lab.sim.network import NetworkFaults
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.world import World

NAMES = [NodeId(f"n{n}") for n in range(5)]
EVERYTHING = Swarm(
    NetworkFaults(drop=0.1),
    crashes=True,
    pauses=True,
    partitions=True,
    disk_failures=True,
    slow_disks=True,
    wipes=True,
    skew=True,
    mean_between_ns=5_000_000,
)


def world_with_nemesis(seed: int, atlas: Atlas) -> tuple[World, Nemesis]:
    world = World(Random(seed))
    for name in NAMES:
        world.add_node(name, CounterProgram(ticking=True), clock=EVERYTHING.clock(world.rng)).boot()
    return world, Nemesis(world, EVERYTHING, atlas, NAMES)


@given(seed=st.integers(0, 1000))
def test_a_harmless_atlas_draws_a_harmless_swarm(seed: int) -> None:
    atlas = Atlas(
        down_max=0,
        may_pause=False,
        may_fail_disks=False,
        may_partition=False,
        may_skew_clocks=False,
        may_drop=False,
        may_duplicate=False,
        may_reorder=False,
    )
    swarm = Swarm.draw(Random(seed), atlas)
    assert not any((swarm.crashes, swarm.pauses, swarm.partitions, swarm.disk_failures, swarm.wipes, swarm.skew))
    assert (swarm.network.drop, swarm.network.duplicate, swarm.network.reorder) == (0, 0, 0)


def test_never_more_than_the_atlas_allows_is_down() -> None:
    world, nemesis = world_with_nemesis(7, Atlas(down_max=2, wiped_max=1))
    most_down = 0

    def watch(node: SimNode) -> None:
        nonlocal most_down
        # A disk failure is not counted until its node stops on it, so one more may be down than was struck down.
        most_down = max(most_down, sum(not world.nodes[name].is_up for name in NAMES))

    world.after_step = watch
    nemesis.start()
    world.run(Instant(2 * SECOND))
    assert 1 <= most_down <= 3
    assert len(nemesis.wiped) == 1


def test_after_the_nemesis_everything_is_up_and_connected() -> None:
    world, nemesis = world_with_nemesis(3, Atlas(down_max=2))
    nemesis.start()
    world.run(Instant(SECOND))
    nemesis.end()
    assert all(world.nodes[name].is_up and not world.nodes[name].is_paused for name in NAMES)
    assert world.network.cut == {}
    assert world.network.faults == NetworkFaults()
    world.run(Instant(2 * SECOND))
    assert all(world.nodes[name].is_up for name in NAMES)
