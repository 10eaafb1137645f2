"""How a process runs: asyncio on uvloop, assertions on, and signals that end it once and cleanly.

Never with `python -O`: invariants are assertions, and a node that cannot notice a broken one must not hold data.
The first SIGINT or SIGTERM cancels the main task, which then closes what it opened. A second one ends the process as if
nobody handled it: whoever waits for a close that hangs can still get out.
"""

import asyncio
import gc
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

from penstock.base.errors import ConfigError

__all__ = ["refuse_without_assertions", "run"]

T = TypeVar("T")


def refuse_without_assertions() -> None:
    """Raise ConfigError when Python was told to drop assertions."""
    if not __debug__:
        raise ConfigError(
            "Python runs with -O (or PYTHONOPTIMIZE), which drops the assertions that guard the data",
            next_step="start it again without -O and with PYTHONOPTIMIZE unset",
        )


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine to its end and return its result.

    A signal cancels it. If it then returns, that is the result; if it ends cancelled, SIGINT comes out as
    KeyboardInterrupt and SIGTERM as SystemExit(143), as a caller of any program expects.
    """
    try:
        refuse_without_assertions()
    except ConfigError:
        main.close()
        raise
    gc.freeze()  # what was loaded stays: no collection need look at it again
    received: list[signal.Signals] = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(_cancelled_by_signals(main, received))
        except asyncio.CancelledError:
            match received:
                case [signal.SIGINT]:
                    raise KeyboardInterrupt from None
                case [signal.SIGTERM]:
                    raise SystemExit(128 + signal.SIGTERM) from None
                case _:
                    raise


async def _cancelled_by_signals(main: Coroutine[Any, Any, T], received: list[signal.Signals]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: signal.Signals) -> None:
        received.append(number)
        for one in before:
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)  # a second signal kills
        task.cancel()

    for one in before:
        loop.add_signal_handler(one, stop, one)
    try:
        return await main
    finally:
        for one, handler in before.items():
            loop.remove_signal_handler(one)
            signal.signal(one, handler)
