"""The event loop of all blocking clients of a process, in a background thread.

Calls may come from any thread. Ctrl-C ends the call and cancels its work. After a fork the child has a loop of its own,
and every client makes its connections again: see `per_process.py`.
"""

import asyncio
import selectors
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from typing import Any, Final, Generic, TypeVar

from penstock.kernel.errors import AlreadyClosed
from penstock.plumbing.process.per_process import PerProcess

__all__ = ["LoopThread"]

T = TypeVar("T")
LOOK_S: Final = 0.1  # that Ctrl-C may take, where a library has told the system to restart what a signal interrupts

SETTLE_S: Final = 0.5  # that a cancelled call may take to end


class LoopThread:
    """An event loop in a thread of its own, made when it is first needed."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._loop: asyncio.AbstractEventLoop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock client", daemon=True)
        self._thread.start()

    @classmethod
    def shared(cls) -> "LoopThread":
        """Return the loop of this process."""
        return _shared.get()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine over there, and wait for it here."""
        self._check_alive(work)
        if threading.current_thread() is self._thread:
            work.close()
            raise AlreadyClosed("a blocking call from inside the event loop would wait for itself: use await there")
        call = _Call(work)
        try:
            self._loop.call_soon_threadsafe(call.begin)
            call.wait()
        except BaseException:
            self._loop.call_soon_threadsafe(call.cancel)  # Ctrl-C: the caller no longer waits
            self._settle()
            raise
        return call.result()

    def _check_alive(self, work: Coroutine[Any, Any, Any]) -> None:
        if _shared.peek() is not self:
            work.close()
            raise AlreadyClosed("this was begun before a fork, and ended with it; begin it again in this process")

    def _settle(self) -> None:
        """Wait until the cancelled call has ended. A process that exits before prints a warning about it."""
        turns = _Call(_turns())
        self._loop.call_soon_threadsafe(turns.begin)
        turns.ended.acquire(timeout=SETTLE_S)

    def call(self, callback: Callable[[], None]) -> None:
        """Call a function over there, and do not wait."""
        self._loop.call_soon_threadsafe(callback)

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine over there, and do not wait: also from over there, where nothing can."""
        self._check_alive(work)
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def leave(self) -> None:
        """Take the parent's epoll from this process: a change of it here would be one there."""
        self._selector.close()

    def iterate(self, items: AsyncIterator[T], *, ahead: int = 1) -> Iterator[T]:
        """Yield here the items that an iterator on the loop yields. If the caller leaves its loop early, the iterator
        ends too.

        `ahead`: how many may wait for us. Many small things cost a change of threads for all which wait, not for each.
        """
        pump: _Pump[T] = self.run(_pump(items, ahead))
        try:
            while taken := self.run(pump.take()):
                yield from taken
        finally:
            if _shared.peek() is self:
                self.run(pump.close())


class _Call(Generic[T]):
    """A coroutine that runs on the loop while another thread waits.

    Ctrl-C may raise between any two steps of the main thread. Inside a `Future` that leaves a lock taken for ever, or
    given back twice. So the waiting thread only waits for a lock, which is one step.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.ended = threading.Lock()
        self.ended.acquire()
        self._work = work
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        """Start it. On the loop, as all that follows but `wait` and `result`."""
        self._task = asyncio.ensure_future(self._work)
        self._task.add_done_callback(lambda _: self.ended.release())

    def cancel(self) -> None:
        if self._task is None:
            self._work.close()
        else:
            self._task.cancel()

    def wait(self) -> None:
        """Wait for its end. In the main thread, look for signals on the way.

        A lock that the main thread waits for is not given up for a signal whose handler was installed with SA_RESTART.
        Polars installs such a handler, and Python's own runs only after the wait.
        """
        timeout_s = LOOK_S if threading.current_thread() is threading.main_thread() else -1
        while not self.ended.acquire(timeout=timeout_s):
            pass

    def result(self) -> T:
        """Return the result of a call that has ended, or raise its error."""
        assert self._task is not None
        if self._task.cancelled():
            raise CancelledError
        return self._task.result()


class _Pump(Generic[T]):
    """Reads ahead of its consumer."""

    def __init__(self, items: AsyncIterator[T], ahead: int) -> None:
        self._items = items
        self._ahead = ahead
        self._ready: list[T] = []
        self._has_some = asyncio.Event()
        self._has_room = asyncio.Event()
        self._task = asyncio.create_task(self._fill())
        self._task.add_done_callback(lambda _: self._has_some.set())

    async def take(self) -> list[T]:
        """Take all ready items, and wait until there is at least one; empty at the end. If the iterator failed, the
        call after the last items raises its error.
        """
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


async def _turns() -> None:
    """Wait three turns of the loop: a cancelled task ends in the second one."""
    for _ in range(3):
        await asyncio.sleep(0)


_shared: Final = PerProcess(LoopThread, leave=LoopThread.leave)
