"""Faults: which kinds a seed has (the swarm), how far they may go (the atlas), and who makes them (the nemesis).

Each seed enables a random subset of the fault kinds with random strength, so that some seeds see only slow disks and
others everything at once. The atlas keeps them inside what the protocol under test promises to survive; a workload
states it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from penstock.kernel.ids import MILLISECOND, NodeId
from penstock.kernel.probes import reached
from penstock_lab.sim.network import NetworkFaults
from penstock_lab.sim.node import MILLION, Clock, SimNode
from penstock_lab.sim.world import World

__all__ = ["Atlas", "Nemesis", "Swarm"]


@dataclass(slots=True, frozen=True)
class Atlas:
    """What may fail, and how much of it at once.

    Every kind is allowed unless the protocol cannot promise to survive it.
    """

    down_max: int  # nodes crashed or stopped at one time
    wiped_max: int = 0  # nodes which ever lose their disk in one run
    may_pause: bool = True
    may_fail_disks: bool = True
    may_partition: bool = True
    may_skew_clocks: bool = True
    may_drop: bool = True  # links which lose single messages (a broken connection is a partition)
    may_duplicate: bool = True
    may_reorder: bool = True


@dataclass(slots=True, frozen=True)
class Swarm:
    """The faults of one seed."""

    network: NetworkFaults
    crashes: bool
    pauses: bool
    partitions: bool
    disk_failures: bool
    slow_disks: bool
    wipes: bool
    skew: bool
    mean_between_ns: int  # time from one blow of the nemesis to the next

    @classmethod
    def draw(cls, rng: Random, atlas: Atlas) -> "Swarm":
        def some(allowed: bool = True) -> bool:
            enabled = rng.random() < 0.5
            return enabled and allowed

        network = NetworkFaults(
            delay_mean_ns=rng.choice((100_000, 500_000, 3_000_000)),
            drop=rng.choice((0.01, 0.1)) if some(atlas.may_drop) else 0.0,
            duplicate=rng.choice((0.01, 0.2)) if some(atlas.may_duplicate) else 0.0,
            reorder=rng.choice((0.01, 0.3)) if some(atlas.may_reorder) else 0.0,
            clog=0.01 if some() else 0.0,
        )
        return cls(
            network=network,
            crashes=some(atlas.down_max > 0),
            pauses=some(atlas.may_pause),
            partitions=some(atlas.may_partition),
            disk_failures=some(atlas.may_fail_disks and atlas.down_max > 0),
            slow_disks=some(),
            wipes=some(atlas.wiped_max > 0),
            skew=some(atlas.may_skew_clocks),
            mean_between_ns=rng.choice((5, 20, 60)) * MILLISECOND,
        )

    def clock(self, rng: Random) -> Clock:
        """A node's clock. Without skew all agree; with it they start hours apart and run up to 5 % fast or slow."""
        if not self.skew:
            return Clock()
        return Clock(rng.randint(0, 10**13), MILLION + rng.randint(-50_000, 50_000))


class Nemesis:
    """Strikes at random while the safety phase lasts, and then makes everything well again."""

    def __init__(self, world: World, swarm: Swarm, atlas: Atlas, nodes: list[NodeId]) -> None:
        self.world = world
        self.swarm = swarm
        self.atlas = atlas
        self.nodes = nodes
        self.wiped: list[NodeId] = []
        self._blows: list[Callable[[SimNode], None]] = []
        for enabled, blow in (
            (swarm.crashes, self._crash),
            (swarm.pauses, self._pause),
            (swarm.partitions, self._partition),
            (swarm.partitions, self._cut_one_way),
            (swarm.disk_failures, self._fail_disk),
            (swarm.slow_disks, self._slow_disk),
            (swarm.wipes, self._wipe),
        ):
            if enabled:
                self._blows.append(blow)
        world.network.faults = swarm.network
        self._is_over = False

    def start(self) -> None:
        if self._blows:
            self._next()

    def end(self) -> None:
        """Heal everything: the liveness phase begins."""
        self._is_over = True
        self.world.network.calm()
        for name in self.nodes:
            node = self.world.nodes[name]
            node.disk.faults.slow_factor, node.disk.faults.fail = 1, 0.0
            node.resume()
            if not node.is_up:
                node.boot()

    def _next(self) -> None:
        self.world.after(self._some_time(), self._strike)

    def _strike(self) -> None:
        if self._is_over:
            return
        rng = self.world.rng
        blow = rng.choice(self._blows)
        blow(self.world.nodes[rng.choice(self.nodes)])
        self._next()

    def _later(self, do: Callable[[], None]) -> None:
        """Undo a blow after a while, unless the nemesis is over and has undone everything itself."""

        def undo() -> None:
            if not self._is_over:
                do()

        self.world.after(2 * self._some_time(), undo)

    def _some_time(self) -> int:
        """Never nothing: a chooser that shrinks draws zeros, and time must still pass."""
        return MILLISECOND + int(self.world.rng.random() * 2 * self.swarm.mean_between_ns)

    def _down(self) -> int:
        return sum(not self.world.nodes[name].is_up for name in self.nodes)

    def _boot(self, node: SimNode) -> None:
        if not node.is_up:
            node.boot()

    def _crash(self, node: SimNode) -> None:
        if node.is_up and self._down() < self.atlas.down_max:
            reached("fault.crash")
            node.crash()
            self._later(lambda: self._boot(node))

    def _pause(self, node: SimNode) -> None:
        if node.is_up and not node.is_paused:
            reached("fault.pause")
            node.pause()
            self._later(node.resume)

    def _partition(self, node: SimNode) -> None:
        rng = self.world.rng
        side = [name for name in self.nodes if name == node.name or rng.random() < 0.3]
        others = [name for name in self.world.nodes if name not in side]
        reached("fault.partition")
        self.world.note(node.name, "!", f"partition {' '.join(side)}")
        self.world.network.isolate(side, others)
        self._later(self.world.network.heal)

    def _cut_one_way(self, node: SimNode) -> None:
        other = self.world.rng.choice(list(self.world.nodes))
        reached("fault.one_way_cut")
        self.world.note(node.name, "!", f"cut to {other}")
        self.world.network.cut_link(node.name, other)
        self._later(self.world.network.heal)

    def _slow_disk(self, node: SimNode) -> None:
        reached("fault.slow_disk")
        node.disk.faults.slow_factor = self.world.rng.choice((10, 100))

        def recover() -> None:
            node.disk.faults.slow_factor = 1

        self._later(recover)

    def _fail_disk(self, node: SimNode) -> None:
        """The next write fails; the supervisor boots the process again, on a disk that works."""
        if not node.is_up or self._down() >= self.atlas.down_max:
            return
        reached("fault.disk_failure")
        node.disk.faults.fail = 1.0

        def recover() -> None:
            node.disk.faults.fail = 0.0
            self._boot(node)

        self._later(recover)

    def _wipe(self, node: SimNode) -> None:
        if len(self.wiped) >= self.atlas.wiped_max or not node.is_up or self._down() >= self.atlas.down_max:
            return
        reached("fault.wipe")
        self.wiped.append(node.name)
        node.crash()
        node.disk.wipe()
        self._later(lambda: self._boot(node))
