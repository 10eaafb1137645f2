"""Timers of a machine, by name and by the machine's own clock.

What always holds: a timer never fires before its time. Event loops do: uvloop counts whole milliseconds from the
beginning of the current turn, so a timer of it may be a millisecond early. A core that wakes early finds that it must
still wait, and nothing wakes it again.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.kernel.ids import Instant

__all__ = ["Timers"]

AGAIN_S: Final = 0.001  # at least, when the event loop was early


class Timers:
    """Calls `fire(name)` once for each time which was set. All calls come from one event loop."""

    def __init__(self, clock: Callable[[], int], fire: Callable[[str], None]) -> None:
        self._clock = clock
        self._fire = fire
        self._loop = asyncio.get_running_loop()
        self._set: dict[str, asyncio.TimerHandle] = {}

    def set(self, name: str, at: Instant) -> None:
        """Fire at that time, or now if it is past. Setting a name again moves it."""
        self.cancel(name)
        delay_s = max(0, at - self._clock()) / 1e9
        self._set[name] = self._loop.call_later(delay_s, self._due, name, at)

    def _due(self, name: str, at: Instant) -> None:
        left_s = (at - self._clock()) / 1e9
        if left_s > 0:
            self._set[name] = self._loop.call_later(max(left_s, AGAIN_S), self._due, name, at)
        else:
            del self._set[name]
            self._fire(name)

    def cancel(self, name: str) -> None:
        """Forget it. A timer that is not set is no error."""
        timer = self._set.pop(name, None)
        if timer is not None:
            timer.cancel()

    def clear(self) -> None:
        """Forget all."""
        for name in list(self._set):
            self.cancel(name)
