"""The queue of the simulated lake: one order for all members, at least one delivery, and little else.

Records may be lost, doubled, late; a copy of something old may be appended much later. Members are given records in
order, each in its own time, and now and then some of them again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.kernel.ids import MILLISECOND
from penstock.lake.core.staging.proposing.port import Delivered, Envelope
from penstock.lake.core.staging.records import Sync, Tick
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.world import World

__all__ = ["QueueFaults", "SimQueue"]


@dataclass
class QueueFaults:
    """How bad the queue is in this seed."""

    delay_ns: int = MILLISECOND
    lose: float = 0.0
    double: float = 0.0
    late: float = 0.0  # chance of a copy long after
    redeliver: float = 0.0
    skew_ns: int = 0  # how far stamps may be off


class SimQueue:
    """The log, and each member's place in it."""

    def __init__(self, world: World, faults: QueueFaults, deliver: Callable[[SimNode, Delivered], None]) -> None:
        self.world = world
        self.faults = faults
        self.log: list[tuple[int, Envelope]] = []
        self._deliver = deliver
        self._cursors: dict[str, tuple[int, int]] = {}  # name -> run of the node, next position
        self._idle: dict[str, SimNode] = {}  # members which have everything
        self._rng = world.rng

    def enqueue(self, envelope: Envelope) -> None:
        """It arrives some time later: never, once or twice."""
        rng, faults = self._rng, self.faults
        if rng.random() >= faults.lose:
            self._later(self._delay(), envelope)
        if rng.random() < faults.double:
            self._later(2 * self._delay(), envelope)
        if rng.random() < faults.late and not isinstance(envelope.record, Sync | Tick):
            self._later(self._delay() + int(rng.random() * 80 * MILLISECOND), envelope)

    def append(self, envelope: Envelope) -> None:
        """Now."""
        skew = self._rng.randint(-self.faults.skew_ns, self.faults.skew_ns) if self.faults.skew_ns else 0
        self.log.append((10**15 + self.world.now + skew, envelope))
        self.world.note("queue", ">", f"{len(self.log)} {type(envelope.record).__name__}")
        idle, self._idle = list(self._idle.values()), {}
        for node in idle:
            self._soon(node, node.run)

    def calm(self) -> None:
        """No more faults."""
        self.faults = QueueFaults(delay_ns=self.faults.delay_ns)

    def follow(self, node: SimNode, applied: int) -> None:
        """A member which has just started wants everything behind `applied`; it may be given some of it again."""
        back = self._rng.randint(0, 3) if self.faults.redeliver else 0
        self._cursors[node.name] = (node.run, max(1, applied + 1 - back))
        self._pump(node, node.run)

    def cursor(self, node: SimNode) -> int:
        """The last position given to a member: it may be lower than the applied one."""
        return self._cursors[node.name][1] - 1

    def has_all(self, node: SimNode) -> bool:
        return self._cursors[node.name][1] > len(self.log)

    def _pump(self, node: SimNode, run: int) -> None:
        """Deliver what there is, one after the other."""
        owner, position = self._cursors[node.name]
        if node.run != run or owner != run or not node.is_up:
            return
        if node.is_paused:
            self.world.after(2 * MILLISECOND, lambda: self._pump(node, run))
        elif position > len(self.log):
            self._idle[node.name] = node
        else:
            stamp, envelope = self.log[position - 1]
            self._cursors[node.name] = (run, position + 1)
            self._deliver(node, Delivered(position, stamp, envelope))
            if self._rng.random() < self.faults.redeliver:
                self._cursors[node.name] = (run, max(1, position - self._rng.randint(0, 4)))
            self._soon(node, run)

    def _soon(self, node: SimNode, run: int) -> None:
        delay_ns = 1 + int(self._rng.random() * self.faults.delay_ns / 2)
        self.world.after(delay_ns, partial(self._pump, node, run))

    def _delay(self) -> int:
        return 1 + int(self._rng.random() * self.faults.delay_ns)

    def _later(self, delay_ns: int, envelope: Envelope) -> None:
        self.world.after(delay_ns, lambda: self.append(envelope))
