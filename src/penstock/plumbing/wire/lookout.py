"""Lookout: a client which waits for one answer keeps its process awake for a moment.

To wake a sleeping processor costs more than a small request does: on a virtual machine 50 µs and more on each side. So
while one request is alone in flight, its event loop polls instead of sleeping, for as long as a prompt answer may take.
It polls only where that pays: an answer which was not prompt ends it, for twice as many requests each time that happens
in a row, so a connection whose server is slow, far away or busy polls for one request of a thousand.
What always holds: it polls for SECONDS_MAX at most per request, only while exactly one is in flight, and everything
else on the loop runs on meanwhile.
"""

import asyncio
from collections.abc import Callable, Sized
from typing import Final

__all__ = ["Lookout"]

SECONDS_MAX: Final = 0.000_25
PAUSE_MAX: Final = 1024  # requests


class Lookout:
    """Of one connection. `calls`: the number of calls in flight on it."""

    __slots__ = ("_calls", "_loop", "_missed", "_now", "_until", "pause")

    def __init__(self, loop: asyncio.AbstractEventLoop, calls: Sized, now: Callable[[], float]) -> None:
        self._loop = loop
        self._calls = calls
        self._now = now
        self._until = 0.0  # 0: it does not look
        self._missed = 0  # in a row
        self.pause = 0  # how many requests are not worth it

    def begin(self) -> None:
        """A request was sent, and it is the only one in flight."""
        if self.pause:
            self.pause -= 1
            return
        if not self._until:
            self._loop.call_soon(self._look)
        self._until = self._now() + SECONDS_MAX

    def _look(self) -> None:
        in_flight = len(self._calls)
        if in_flight == 1 and self._now() < self._until:
            self._loop.call_soon(self._look)
            return
        self._until = 0.0
        if in_flight == 0:
            self._missed = 0
        else:
            self._missed += 1
            self.pause = min(2**self._missed, PAUSE_MAX)
