"""The ticks of a leader: how much time has passed, told to a machine whose leases need it. Design: operating.md O6.

Pure: the node's shell and the simulator's host run the same rules. What always holds:

- A tick tells the time since the tick before it in the same epoch, by one clock. The first one tells 0.
- At most one tick is on its way, so a leader without a quorum does not fill its limbo with them.
"""

from typing import Final

from penstock.kernel.ids import MILLISECOND, Epoch, Instant
from penstock.quorum.records.keyspace import LeaseTick

__all__ = ["TICK_EVERY_NS", "LeaseTicks"]

TICK_EVERY_NS: Final = 250 * MILLISECOND


class LeaseTicks:
    """The ticks of one replica."""

    def __init__(self) -> None:
        self._epoch = Epoch(0)
        self._last: Instant | None = None  # the end of the time of the last tick
        self._is_sent = False

    def due(self, now: Instant, epoch: Epoch | None, *, is_wanted: bool) -> LeaseTick | None:
        """Return the tick to append now. `epoch`: that this replica leads, if it does."""
        if epoch is None or not is_wanted:
            self._last, self._is_sent = None, False
            return None
        if self._is_sent and epoch == self._epoch:
            return None
        if self._last is None or epoch != self._epoch:
            passed_ms = 0
            self._epoch, self._last = epoch, now
        else:
            if now - self._last < TICK_EVERY_NS:
                return None
            passed_ms = (now - self._last) // MILLISECOND
            self._last = Instant(self._last + passed_ms * MILLISECOND)
        self._is_sent = True
        return LeaseTick(passed_ms)

    def answered(self) -> None:
        """The tick on its way has an answer, whatever it is: none is sent again."""
        self._is_sent = False
