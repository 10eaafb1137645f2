"""Journals of the exactly-once workload: appends which are late, doubled, or applied and never answered.

An `Appender` is one process's way to the journals. It keeps the promise of `consumers/core/effects.py`: appends to one
journal in order, each repeated until it is acknowledged. A process that dies leaves its messages on their way.
"""

from collections import deque
from collections.abc import Callable

from penstock.kernel.ids import Offset
from penstock.kernel.probes import reached
from penstock_lab.sim.world import World

__all__ = ["Appender", "SimJournals"]

Waiter = Callable[[], None]
Answer = Callable[[Offset], None]


class SimJournals:
    """All journals of a world. Appended bytes stay; waiting readers are woken."""

    def __init__(self, world: World, *, doubles: float, slow_ns: int) -> None:
        self.world = world
        self.doubles = doubles  # how often an append is applied, and its answer lost
        self.slow_ns = slow_ns
        self._data: dict[str, bytearray] = {}
        self._waiters: dict[str, list[Waiter]] = {}

    def read(self, journal: str, begin: int, end: int | None = None) -> bytes:
        return bytes(self._data.get(journal, b"")[begin:end])

    def size(self, journal: str) -> int:
        return len(self._data.get(journal, b""))

    def append(self, journal: str, data: bytes) -> Offset:
        """Append, and return the new end of the journal."""
        self._data.setdefault(journal, bytearray()).extend(data)
        end = Offset(self.size(journal))
        for waiter in self._waiters.pop(journal, []):
            waiter()
        return end

    def when_longer(self, journal: str, than: Offset, then: Waiter) -> None:
        """Call when the journal has bytes behind an offset."""
        if self.size(journal) > than:
            then()
        else:
            self._waiters.setdefault(journal, []).append(lambda: self.when_longer(journal, than, then))

    def delay(self) -> int:
        return 10_000 + int(self.world.rng.random() * self.slow_ns)


class Appender:
    """One run of one process, appending."""

    def __init__(self, journals: SimJournals, is_alive: Callable[[], bool]) -> None:
        self._journals = journals
        self._is_alive = is_alive
        self._queues: dict[str, deque[tuple[bytes, Answer]]] = {}

    def append(self, journal: str, data: bytes, then: Answer) -> None:
        queue = self._queues.setdefault(journal, deque())
        queue.append((data, then))
        if len(queue) == 1:
            self._send(journal)

    def _send(self, journal: str) -> None:
        self._journals.world.after(self._journals.delay(), lambda: self._arrive(journal))

    def _arrive(self, journal: str) -> None:
        """At the broker, whether or not the sender is still alive."""
        journals, queue = self._journals, self._queues[journal]
        data, then = queue[0]
        end = journals.append(journal, data)
        if not self._is_alive():
            reached("exactly_once.append_of_a_dead_process")
            return
        if journals.world.rng.random() < journals.doubles:
            reached("exactly_once.append_doubled")
            self._send(journal)  # its answer was lost
            return
        journals.world.after(journals.delay(), lambda: self._answered(journal, end, then))

    def _answered(self, journal: str, end: Offset, then: Answer) -> None:
        if not self._is_alive():
            return
        queue = self._queues[journal]
        queue.popleft()
        if queue:
            self._send(journal)
        then(end)
