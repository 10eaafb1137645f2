"""Tasks a service has started and not yet awaited: none is lost, none fails unheard, all end with their owner."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["Tasks"]


class Tasks:
    """A bag of tasks. An unexpected failure of one is passed to `on_failure`, once each."""

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._on_failure = on_failure
        self._running: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run something in the background. After `close` nothing starts any more."""
        if self._is_closed:
            work.close()
            raise asyncio.CancelledError
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancel what still runs, and wait until it has ended."""
        self._is_closed = True
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)
