"""The simulated network: links between nodes which delay, drop, double, reorder and cut.

A link is FIFO, as TCP is, unless the swarm reorders its messages; a cut link loses messages sent over it and delivers
those already on their way late, as a zombie's last words.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.kernel.ids import MICROSECOND, MILLISECOND, Instant, NodeId

__all__ = ["Network", "NetworkFaults"]


@dataclass(slots=True)
class NetworkFaults:
    """How bad the links are. Chances are per message, drawn once per seed by the swarm."""

    delay_min_ns: int = 50 * MICROSECOND
    delay_mean_ns: int = 200 * MICROSECOND
    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0  # the chance to overtake: this message does not wait for those before it
    clog: float = 0.0  # the chance that a message, and all after it, waits for `clog_ns`
    clog_ns: int = 50 * MILLISECOND


@dataclass(slots=True)
class Network:
    """Carries messages between nodes of one world."""

    rng: Random
    schedule: Callable[[Instant, Callable[[], None]], object]
    faults: NetworkFaults = field(default_factory=NetworkFaults)
    cut: dict[tuple[NodeId, NodeId], bool] = field(default_factory=dict)
    _arrives_at: dict[tuple[NodeId, NodeId], int] = field(default_factory=dict)
    sent: int = 0
    dropped: int = 0

    def send(
        self, now: Instant, source: NodeId, to: NodeId, message: Any, deliver: Callable[[NodeId, Any], None]
    ) -> None:
        """Put a message on the link; `deliver` is called for each copy that arrives."""
        self.sent += 1
        faults = self.faults
        if self.cut.get((source, to), False) or (faults.drop and self.rng.random() < faults.drop):
            self.dropped += 1
            return
        copies = 2 if faults.duplicate and self.rng.random() < faults.duplicate else 1
        for _ in range(copies):
            self.schedule(self._arrival(now, source, to), lambda: deliver(source, message))

    def _arrival(self, now: Instant, source: NodeId, to: NodeId) -> Instant:
        faults, rng = self.faults, self.rng
        arrival = now + faults.delay_min_ns + int(rng.random() * 2 * faults.delay_mean_ns)
        if faults.clog and rng.random() < faults.clog:
            arrival += faults.clog_ns
        if faults.reorder and rng.random() < faults.reorder:
            return Instant(arrival)
        arrival = max(arrival, self._arrives_at.get((source, to), 0))
        self._arrives_at[source, to] = arrival
        return Instant(arrival)

    def cut_link(self, source: NodeId, to: NodeId) -> None:
        """Cut one direction: messages from `source` to `to` are lost from now on."""
        self.cut[source, to] = True

    def isolate(self, side: list[NodeId], others: list[NodeId]) -> None:
        """A full partition between two groups."""
        for a in side:
            for b in others:
                self.cut_link(a, b)
                self.cut_link(b, a)

    def heal(self) -> None:
        """Restore all cut links. Messages lost meanwhile stay lost."""
        self.cut.clear()

    def calm(self) -> None:
        """Begin the liveness phase: from now on the network is fast and loses nothing."""
        self.heal()
        self.faults = NetworkFaults()
