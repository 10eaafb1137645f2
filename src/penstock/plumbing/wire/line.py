"""Line: callers that wait for room, first come, first served.

Only the first is ever woken; when it leaves, it wakes the next. What always holds: no caller overtakes another, and
none sleeps while the first in line could continue, as long as `wake` is called whenever room may have appeared.
"""

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["Line"]


class Line:
    """A line of waiting tasks. It is true while a caller waits in it."""

    __slots__ = ("waiters",)

    def __init__(self) -> None:
        self.waiters: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self.waiters)

    async def wait(self, may_go: Callable[[], bool]) -> None:
        """Wait to be first, and then until `may_go`."""
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self.waiters.append(waiter)
        try:
            while self.waiters[0] is not waiter or not may_go():
                await waiter
                waiter = self.waiters[0] = loop.create_future()
        finally:
            self.waiters.remove(waiter)
            self.wake()

    def wake(self) -> None:
        """Let the first in line look again."""
        if self.waiters and not self.waiters[0].done():
            self.waiters[0].set_result(None)
