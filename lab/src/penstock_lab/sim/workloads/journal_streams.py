"""Replicate streams between simulated brokers: in order, slow, and broken as connections break.

A stream has two directions. Messages arrive later and in order; when a link is cut, or a process ends, everything on
the way may be lost, and each side that still lives learns that the stream has ended, sooner or later.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.journals.records.epoch import PipelineEpoch
from penstock.kernel.ids import MILLISECOND, Instant, NodeId
from penstock.kernel.probes import reached
from penstock_lab.sim.world import World

__all__ = ["Streams"]

Way = tuple[NodeId, NodeId, PipelineEpoch]
Deliver = Callable[[NodeId, NodeId, PipelineEpoch, Any], None]  # to, from, epoch, message; None: the end


class Streams:
    """All streams of one world."""

    def __init__(self, world: World, deliver: Deliver) -> None:
        self.world = world
        self._deliver = deliver
        self._arrives_at: dict[Way, int] = {}
        self._broken: dict[tuple[NodeId, NodeId, PipelineEpoch], None] = {}  # by both ends, sorted
        self._open: dict[tuple[NodeId, NodeId, PipelineEpoch], None] = {}
        self.extra_ns = 0  # how much longer a message may take at most

    def send(self, source: NodeId, to: NodeId, epoch: PipelineEpoch, message: Any) -> None:
        pair = _pair(source, to, epoch)
        if pair in self._broken:
            return
        self._open[pair] = None
        if self._is_cut(source, to) or not self.world.nodes[to].is_up:
            self.break_pair(pair)
            return
        run = self.world.nodes[to].run
        self.world.at(self._arrival((source, to, epoch)), lambda: self._arrive(source, to, epoch, message, run))

    def close(self, source: NodeId, to: NodeId, epoch: PipelineEpoch) -> None:
        """Close a stream after the messages already sent; the other side learns of it in order."""
        self.send(source, to, epoch, None)

    def _arrive(self, source: NodeId, to: NodeId, epoch: PipelineEpoch, message: Any, run: int) -> None:
        pair = _pair(source, to, epoch)
        if pair in self._broken or self.world.nodes[to].run != run:
            return
        if self._is_cut(source, to):
            self.break_pair(pair)
        else:
            self._deliver(to, source, epoch, message)

    def break_pair(self, pair: tuple[NodeId, NodeId, PipelineEpoch]) -> None:
        """Both ends will learn of it, each in its own time."""
        if pair in self._broken:
            return
        reached("journal.stream_broken")
        self._broken[pair] = None
        self._open.pop(pair, None)
        one, other, epoch = pair
        for to, source in ((one, other), (other, one)):
            run = self.world.nodes[to].run
            delay = int(self.world.rng.random() * 5 * MILLISECOND)
            self.world.after(delay, partial(self._end, to, source, epoch, run))

    def _end(self, to: NodeId, source: NodeId, epoch: PipelineEpoch, run: int) -> None:
        if self.world.nodes[to].run == run:
            self._deliver(to, source, epoch, None)

    def break_all(self, name: NodeId) -> None:
        """A process has ended, or its connections were reset."""
        for pair in [pair for pair in self._open if name in pair[:2]]:
            self.break_pair(pair)

    def _is_cut(self, source: NodeId, to: NodeId) -> bool:
        cut = self.world.network.cut
        return cut.get((source, to), False) or cut.get((to, source), False)

    def _arrival(self, way: Way) -> Instant:
        faults, rng = self.world.network.faults, self.world.rng
        arrival = self.world.now + faults.delay_min_ns + int(rng.random() * 2 * faults.delay_mean_ns)
        if faults.clog and rng.random() < faults.clog:
            arrival += faults.clog_ns
        arrival = max(arrival, self._arrives_at.get(way, 0))
        self._arrives_at[way] = arrival
        return Instant(arrival)


def _pair(one: NodeId, other: NodeId, epoch: PipelineEpoch) -> tuple[NodeId, NodeId, PipelineEpoch]:
    return (one, other, epoch) if one < other else (other, one, epoch)
