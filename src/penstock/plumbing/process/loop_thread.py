"""The event loop of all blocking clients of a process, in a background thread.

Calls may come from any thread; Ctrl-C ends the call, and what it had asked for is cancelled.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from penstock.kernel.errors import AlreadyClosed

__all__ = ["LoopThread"]

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own, made when it is first needed."""

    _lock = threading.Lock()
    _shared: "LoopThread | None" = None

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock client", daemon=True)
        self._thread.start()

    @classmethod
    def shared(cls) -> "LoopThread":
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls()
            return cls._shared

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine over there, and wait for it here."""
        if threading.current_thread() is self._thread:
            work.close()
            raise AlreadyClosed("a blocking call from inside the event loop would wait for itself: use await there")
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C: nobody waits any more
            raise

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine over there, and do not wait: also from over there, where nothing can."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def iterate(self, items: AsyncIterator[T], *, ahead: int = 1) -> Iterator[T]:
        """What comes over there, here. Leaving the loop early ends it there too.

        `ahead`: how many may wait for us. Many small things cost a change of threads for all which wait, not for each.
        """
        pump: _Pump[T] = self.run(_pump(items, ahead))
        try:
            while taken := self.run(pump.take()):
                yield from taken
        finally:
            self.run(pump.close())


class _Pump(Generic[T]):
    """Reads ahead of whoever takes."""

    def __init__(self, items: AsyncIterator[T], ahead: int) -> None:
        self._items = items
        self._ahead = ahead
        self._ready: list[T] = []
        self._has_some = asyncio.Event()
        self._has_room = asyncio.Event()
        self._task = asyncio.create_task(self._fill())
        self._task.add_done_callback(lambda _: self._has_some.set())

    async def take(self) -> list[T]:
        """All which is there, as soon as something is; nothing, at the end. Raises behind it what ended it."""
        await self._has_some.wait()
        taken, self._ready = self._ready, []
        self._has_room.set()
        if not self._task.done():
            self._has_some.clear()
        elif not taken:
            self._task.result()
        return taken

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._items.aclose()  # type: ignore[attr-defined]  # they are generators

    async def _fill(self) -> None:
        async for item in self._items:
            while len(self._ready) >= self._ahead:
                self._has_room.clear()
                await self._has_room.wait()
            self._ready.append(item)
            self._has_some.set()


async def _pump(items: AsyncIterator[T], ahead: int) -> _Pump[T]:
    return _Pump(items, ahead)
