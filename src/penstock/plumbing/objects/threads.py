"""Blocking calls of a store, in a few threads of its own.

obstore has an asynchronous interface too, but its worker threads then call into Python by themselves, and abort the
process if Python is just ending (PyO3/pyo3-async-runtimes#40; a short script ended so in one of four runs). Our threads
are joined before Python ends, and obstore's never see it.

A cancelled call continues in its thread, and may still take effect.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from penstock.kernel.errors import AlreadyClosed

__all__ = ["Steps", "Threads", "all_of"]

T = TypeVar("T")


class Threads:
    """Runs the calls of one store. More of them than there are threads wait for their turn."""

    def __init__(self, store: str, threads_max: int) -> None:
        self._store = store
        self._threads: ThreadPoolExecutor | None = ThreadPoolExecutor(threads_max, "penstock-objects")

    def run(self, call: Callable[[], T]) -> asyncio.Future[T]:
        self.check_open()
        assert self._threads is not None
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def take(self, call: Callable[[], T], give_back: Callable[[T], None]) -> T:
        """Return what the call opens. If the caller is cancelled meanwhile, `give_back` gets it once the thread
        has it.
        """
        taken = self.run(call)
        try:
            return await asyncio.shield(taken)
        except asyncio.CancelledError:
            taken.add_done_callback(lambda done: None if done.exception() else give_back(done.result()))
            raise

    def check_open(self) -> None:
        if self._threads is None:
            raise AlreadyClosed(f"{self._store} is closed")

    async def close(self) -> None:
        """Wait for the calls which are running."""
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)


class Steps:
    """The calls of one stream, one after the other. Each ends in its thread even if its caller is cancelled."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._last: asyncio.Future[Any] | None = None

    async def do(self, call: Callable[[], T]) -> T:
        self._last = self._threads.run(call)
        result: T = await asyncio.shield(self._last)
        return result

    async def quiet(self) -> None:
        """Wait until no call is in a thread: an object must not be closed while a call uses it."""
        if self._last is not None:
            await asyncio.wait([self._last])


async def all_of(calls: Iterable[Coroutine[Any, Any, T]]) -> tuple[T, ...]:
    """Run several calls at once and return their results. If one fails, the others are cancelled and awaited."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return tuple(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
