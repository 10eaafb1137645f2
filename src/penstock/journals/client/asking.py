"""Questions that any broker can answer: one after the other, until the first has answered.

A broker that is frozen, or whose machine is gone, answers nothing and refuses nothing. So the next one is asked when
those before have failed, or have been silent for a while; the first answer counts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from penstock.kernel.errors import Indeterminate, PenstockError, Unavailable

__all__ = ["SILENT_S", "first_answer"]

SILENT_S: Final = 0.2  # after which another broker is asked as well
T = TypeVar("T")


async def first_answer(
    addresses: Iterable[str], ask: Callable[[str], Awaitable[T]], *, silent_s: float = SILENT_S
) -> tuple[str, T]:
    """Return who answered first, and the answer. Raise errors that every broker would answer."""
    left = list(addresses)
    asked: dict[asyncio.Task[T], str] = {}
    last: PenstockError = Unavailable("no broker was asked")
    loop = asyncio.get_running_loop()
    try:
        while left or asked:
            if left:
                address = left.pop(0)
                asked[loop.create_task(_asked(ask, address), name=f"asks {address}")] = address
            timeout_s = silent_s if left else None
            done, _ = await asyncio.wait(asked, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                address = asked.pop(task)
                try:
                    return address, task.result()
                except (Unavailable, Indeterminate) as error:
                    last = error
        raise last
    finally:
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


async def _asked(ask: Callable[[str], Awaitable[T]], address: str) -> T:
    return await ask(address)
