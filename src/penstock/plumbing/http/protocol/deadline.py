"""A deadline that is set for every request and hardly ever passes.

One timer of the event loop serves all of them: it is set again only when it fires, or must fire earlier. So a deadline
costs one comparison, where a timer of its own would cost as much as parsing the request.
"""

import asyncio
from collections.abc import Callable

__all__ = ["Deadline"]


class Deadline:
    """What happens if something else does not happen in time. At most one thing is waited for."""

    __slots__ = ("_at", "_loop", "_on_late", "_timer", "_timer_at")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._at = 0.0
        self._on_late: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def set(self, milliseconds: int, on_late: Callable[[], None]) -> None:
        """Have a call made then. It replaces the one before."""
        self._on_late = on_late
        self._at = self._loop.time() + milliseconds / 1000
        if self._timer is None or self._at < self._timer_at:
            self._set_timer()

    def clear(self) -> None:
        """Wait for nothing."""
        self._on_late = None

    def close(self) -> None:
        self._on_late = None
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._at
        self._timer = self._loop.call_at(self._at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        on_late = self._on_late
        if on_late is None:
            return
        if self._at > self._loop.time():
            self._set_timer()
        else:
            self._on_late = None
            on_late()
