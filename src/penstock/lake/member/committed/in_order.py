"""Some calls at once, their results in order."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import TypeVar

__all__ = ["in_order"]

T = TypeVar("T")
R = TypeVar("R")


async def in_order(
    items: Iterable[T], call: Callable[[T], Awaitable[R]], in_flight_max: int
) -> AsyncGenerator[R, None]:
    """Yield the result of `call` for each item, in the items' order; at most `in_flight_max` are running or waiting to
    be taken.

    If a call fails, or the caller stops early, the calls after it are cancelled and awaited. Close the iterator when
    you leave it early (`contextlib.aclosing`), or that happens late.
    """
    running: deque[asyncio.Future[R]] = deque()
    try:
        for item in items:
            if len(running) >= in_flight_max:
                yield await running.popleft()
            running.append(asyncio.ensure_future(call(item)))
        while running:
            yield await running.popleft()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
