"""Deadlines without a timer per request: one timer, set to the earliest deadline there may be.

Most requests end long before their deadline, so nothing is done for them but one comparison. When the timer fires, the
owner looks through the calls in flight, ends the due ones, and names the next earliest deadline. What always holds: the
timer is never later than the earliest deadline that was noted and is still in flight.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Final

from penstock.kernel.errors import DeadlineExceeded, Written

__all__ = ["DEADLINE_S_MAX", "NEVER", "DeadlineSweep", "deadline_ms_of"]

NEVER: Final = math.inf
DEADLINE_S_MAX: Final = 4_000_000.0  # 46 days: what fits the header's field; more is no deadline at all
SWEEP_SECONDS_MIN: Final = 0.001  # the cost of a sweep follows the calls in flight: never two within this time


def deadline_ms_of(deadline_s: float) -> int:
    """A deadline as a frame carries it: in whole milliseconds, at least one; 0 for none."""
    if not deadline_s > 0:
        raise DeadlineExceeded("the deadline had passed before anything was sent", written=Written.NO)
    return max(1, int(deadline_s * 1000)) if deadline_s <= DEADLINE_S_MAX else 0


class DeadlineSweep:
    """Calls `expire(now)` when a deadline may have come; it returns the earliest deadline left, or NEVER."""

    __slots__ = ("_expire", "_loop", "_timer", "next_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[float], float]) -> None:
        self._loop = loop
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None
        self.next_at = NEVER  # callers compare with this before they call `note`: that is the whole cost

    def note(self, deadline_at: float) -> None:
        """A request with this deadline is in flight."""
        if deadline_at < self.next_at:
            self._set(deadline_at)

    def close(self) -> None:
        self.next_at = NEVER
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.next_at = at
        self._timer = self._loop.call_at(at, self._fire)

    def _fire(self) -> None:
        now = self._loop.time()
        self._timer, self.next_at = None, NEVER
        left = self._expire(now)
        if left < NEVER:
            self.note(max(left, now + SWEEP_SECONDS_MIN))
