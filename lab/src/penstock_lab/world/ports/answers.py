"""An answer on its way to a process: a future of its loop that something of the world settles, once."""

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock_lab.world.process import Life

__all__ = ["Awaited"]


class Awaited:
    """The first result or error counts. It arrives in a turn of the process, not while that is frozen or after it."""

    def __init__(self, process: "Life") -> None:
        self.process = process
        self.future: asyncio.Future[Any] = process.loop.create_future()

    def arrive(self, result: Any, error: BaseException | None = None, *, delay_ns: int = 0) -> None:
        self.process.later(delay_ns, self.process.loop.call_soon, self._settle, result, error)

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)
