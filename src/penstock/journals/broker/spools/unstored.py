"""Unstored: the bytes of a broker that wait for their stores have a bound. Design: integrity.md D11.

While a store takes nothing, finished fragments stay on the broker's disk. From `SLOW_AT` of the bound on, the broker
takes content no faster than its stores take fragments, or a little faster while they take none. At the bound it refuses
content (`Overloaded`) before a byte is taken, and says so to its primaries, until a store has taken some.

What always holds: what waits is at most the bound and the fragments that are open.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from penstock.journals.broker.appends import FlowBucket
from penstock.journals.records.api import Shortage, Status
from penstock.kernel.ids import SECOND, Instant, NodeId

__all__ = ["Unstored", "default_bound"]

BOUND: Final = 32 << 30
SLOW_AT: Final = 0.8
REST_S: Final = 600.0  # from there to the bound, while a store takes nothing
RATE_NS: Final = 30 * SECOND  # over which the rate of the stores is measured


def default_bound(disk_bytes: int) -> int:
    """The bound on a disk of this size.

    >>> default_bound(40 << 30) >> 30, default_bound(1 << 40) >> 30
    (10, 32)
    """
    return min(BOUND, disk_bytes // 4)


class Unstored:
    """The bytes of a broker that wait for stores, as the persister counts them."""

    def __init__(self, broker: NodeId, bound: int, clock: Callable[[], int]) -> None:
        self.bytes = 0
        self.bound = bound
        self.refused = 0  # contents, because of the bound
        self._slow_from = int(bound * SLOW_AT)
        self._broker = broker
        self._clock = clock
        self.error = ""  # why the last attempt failed, until one succeeds
        self._stored: deque[tuple[int, int]] = deque()  # when, and how many bytes
        self._since_ns = clock()  # the stores have taken nothing since
        self._pace = FlowBucket(1)

    # what the persister says

    def submitted(self, length: int) -> None:
        if not self.bytes:
            self._since_ns = self._clock()
        self.bytes += length

    def ended(self, length: int, *, is_stored: bool) -> None:
        self.bytes -= length
        if is_stored:
            self._since_ns, self.error = self._clock(), ""
            self._stored.append((self._since_ns, length))

    def failed(self, reason: str) -> None:
        self.error = reason

    # what those ask who take content

    @property
    def is_full(self) -> bool:
        return self.bytes >= self.bound

    def wait_ns(self) -> int:
        """Return how long to wait before the next content is taken: 0 for not at all."""
        if self.bytes < self._slow_from or self.is_full:
            return 0
        self._pace.bytes_per_s = max(self._rate(), int(self.bound * (1 - SLOW_AT) / REST_S), 1)
        return self._pace.wait_ns(Instant(self._clock()))

    def took(self, length: int) -> None:
        """Content was taken."""
        if self.bytes >= self._slow_from:
            self._pace.take(length)

    def shortage(self, folder: str) -> Shortage:
        """Return why content is refused."""
        minutes, seconds = divmod((self._clock() - self._since_ns) // SECOND, 60)
        quiet = f"{minutes} min" if minutes else f"{seconds} s"
        why = f": {self.error}" if self.error else ""
        reason = (
            f"{self._broker} keeps {self.bytes} bytes that no store has yet, and may keep {self.bound}; "
            f"the store has taken nothing for {quiet}{why}"
        )
        return Shortage(Status.OVERLOADED, self._broker, folder, max(0, self.bound - self.bytes), reason)

    def _rate(self) -> int:
        """Return how many bytes a second the stores have taken lately."""
        start = self._clock() - RATE_NS
        while self._stored and self._stored[0][0] < start:
            self._stored.popleft()
        return sum(length for _, length in self._stored) * SECOND // RATE_NS
