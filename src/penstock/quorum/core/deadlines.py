"""When waiters give up: one FIFO per time-out in use, so that a batch costs a few appends and the queue is never
searched.

Entries which wait equally long end in the order they came. Time-outs are rounded up to a grain, which bounds how many
FIFOs there are; an entry answered in time is dropped when it reaches the front, or when a younger one is added.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.kernel.ids import Instant
from penstock.quorum.core.limbo_queue import LimboEntry, LimboState

__all__ = ["Deadlines"]


def is_over(entry: LimboEntry) -> bool:
    """Does nobody wait for this entry any more?"""
    return entry.state is LimboState.ANSWERED or entry.request is None


class Deadlines:
    """The deadlines of all waiting entries."""

    __slots__ = ("_fifos", "_grain_ns")

    def __init__(self, grain_ns: int) -> None:
        self._grain_ns = grain_ns
        self._fifos: dict[int, deque[LimboEntry]] = {}

    def rounded(self, timeout_ns: int) -> int:
        """A waiter waits at most one grain longer than it asked for."""
        return -(-timeout_ns // self._grain_ns) * self._grain_ns

    def add(self, entries: Sequence[LimboEntry], rounded_ns: int, now: Instant) -> None:
        """The waiters of these entries give up `rounded_ns` from now."""
        deadline = Instant(now + rounded_ns)
        for entry in entries:
            entry.deadline = deadline
        fifo = self._fifos.get(rounded_ns)
        if fifo is None:
            fifo = self._fifos[rounded_ns] = deque()
        while fifo and is_over(fifo[0]):  # so that finished entries never pile up
            fifo.popleft()
        fifo.extend(entries)

    def earliest(self) -> Instant | None:
        """Return when the next waiter gives up; None if none waits."""
        for timeout in list(self._fifos):
            fifo = self._fifos[timeout]
            while fifo and is_over(fifo[0]):
                fifo.popleft()
            if not fifo:
                del self._fifos[timeout]
        return min((fifo[0].deadline for fifo in self._fifos.values()), default=None)

    def expired(self, now: Instant) -> list[LimboEntry]:
        """Entries whose time is over; they are forgotten here. Oldest deadline first, then by offset."""
        entries: list[LimboEntry] = []
        for fifo in self._fifos.values():
            while fifo and (fifo[0].deadline <= now or is_over(fifo[0])):
                entry = fifo.popleft()
                if not is_over(entry):
                    entries.append(entry)
        entries.sort(key=lambda entry: (entry.deadline, entry.offset))
        return entries

    def clear(self) -> None:
        self._fifos.clear()

    def copy(self, twin_of: Callable[[LimboEntry], LimboEntry]) -> "Deadlines":
        """Equal deadlines over the twins of the entries."""
        twin = Deadlines(self._grain_ns)
        twin._fifos = {
            timeout: deque(twin_of(entry) for entry in fifo if not is_over(entry))
            for timeout, fifo in self._fifos.items()
        }
        return twin

    def check(self, waiting: Iterable[LimboEntry]) -> None:
        """Every waiter has a deadline, once, and each FIFO is in order."""
        known: list[Any] = [id(entry) for fifo in self._fifos.values() for entry in fifo if not is_over(entry)]
        assert len(known) == len(set(known)), "one deadline each"
        assert set(known) == {id(entry) for entry in waiting if entry.request is not None}, "no waiter without an end"
        for fifo in self._fifos.values():
            deadlines = [entry.deadline for entry in fifo]
            assert deadlines == sorted(deadlines)
