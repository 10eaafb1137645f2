"""The world: virtual time, nodes, network and disks, all drawn from one `Random`.

Everything that happens is an entry of one heap, ordered by time and then by the order of scheduling, so a seed is a
run: no clock, no thread and no hash order has a say. Hand in `Random(seed)` to sweep seeds, or Hypothesis' `randoms()`
to have a failure shrunk.
"""

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

from penstock.kernel.ids import Instant, NodeId
from penstock_lab.sim.disk import SimDisk
from penstock_lab.sim.network import Network
from penstock_lab.sim.node import Clock, Program, SimNode
from penstock_lab.sim.trace import Trace

__all__ = ["OutOfSteps", "World"]


class OutOfSteps(Exception):
    """The run took more steps than it may: a live-lock, or a workload without an end."""


class World:
    """One deterministic world. `after_step` sees every node right after it handled something."""

    def __init__(self, rng: Random, *, trace: Trace | None = None, steps_max: int = 500_000) -> None:
        self.rng = rng
        self.now = Instant(0)
        self.trace = trace if trace is not None else Trace()
        self.network = Network(rng, self.at)
        self.nodes: dict[NodeId, SimNode] = {}
        self.after_step: Callable[[SimNode], None] = lambda _: None
        # called for every message before the network
        self.on_send: Callable[[NodeId, NodeId, Any], None] = lambda *_: None
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._tokens = 0
        self._steps_left = steps_max

    def add_node(self, name: NodeId, program: Program, *, clock: Clock | None = None) -> SimNode:
        """A new process with an empty disk. It does nothing before its `boot`."""
        assert name not in self.nodes, f"two nodes are called {name}"
        node = SimNode(self, name, program, SimDisk(self.rng), clock or Clock())
        self.nodes[name] = node
        return node

    def at(self, when: Instant, do: Callable[[], None]) -> None:
        """Do something at a time of the world, which must not be past."""
        assert when >= self.now, f"{when} is past: it is {self.now}"
        self._tokens += 1
        heapq.heappush(self._heap, (when, self._tokens, do))

    def after(self, delay_ns: int, do: Callable[[], None]) -> None:
        assert delay_ns >= 0, delay_ns
        self._tokens += 1
        heapq.heappush(self._heap, (self.now + delay_ns, self._tokens, do))

    def next_token(self) -> int:
        self._tokens += 1
        return self._tokens

    def send(self, source: NodeId, to: NodeId, message: Any) -> None:
        """Carry a message, from its own point of view: a node that does not exist gets nothing."""
        self.on_send(source, to, message)
        target = self.nodes.get(to)
        if target is not None:
            self.network.send(self.now, source, to, message, target.receive)

    def run(self, until: Instant, *, done: Callable[[], bool] = lambda: False) -> bool:
        """Let things happen up to a time, or until `done()`; True if it was done.

        Nothing left to happen ends it too.
        """
        heap = self._heap
        while heap and heap[0][0] <= until:
            if done():
                return True
            when, _, do = heapq.heappop(heap)
            self.now = Instant(when)
            self._steps_left -= 1
            if self._steps_left < 0:
                raise OutOfSteps(f"still running at {self.now} ns")
            do()
        self.now = max(self.now, until)
        return done()

    def note(self, who: str, mark: str, what: Any) -> None:
        self.trace.add(self.now, who, mark, what)

    def checked(self, node: SimNode) -> None:
        """After each step: the machine's own invariants, then the world's."""
        if node.machine is not None:
            node.machine.check()
        self.after_step(node)
