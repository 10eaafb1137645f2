"""Back-off: how long a replica waits before it builds a pipeline again. Doubles with every failure, up to a limit."""

from penstock.kernel.effects import Effect, SetTimer
from penstock.kernel.ids import Instant

__all__ = ["RetryTimer"]

TIMER = "retry"


class RetryTimer:
    """One wait at a time; the timer is set once for each."""

    def __init__(self, first_ns: int, longest_ns: int, out: list[Effect]) -> None:
        self.until = Instant(0)
        self._first_ns = first_ns
        self._longest_ns = longest_ns
        self._next_ns = first_ns
        self._armed_for = Instant(0)
        self._out = out

    def is_waiting(self, now: Instant) -> bool:
        """Return whether it is too early; then the timer will tell."""
        if now >= self.until:
            return False
        if self._armed_for != self.until:
            self._armed_for = self.until
            self._out.append(SetTimer(TIMER, self.until))
        return True

    def extend(self, now: Instant) -> None:
        """It failed: wait, and longer the next time."""
        self.until = Instant(now + self._next_ns)
        self._next_ns = min(2 * self._next_ns, self._longest_ns)

    def reset(self, now: Instant) -> None:
        """Things have changed: try at once."""
        self.until, self._next_ns = now, self._first_ns
