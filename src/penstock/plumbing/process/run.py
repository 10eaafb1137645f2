"""How a process runs: asyncio (on uvloop if installed), assertions on, and signals that end it once and cleanly.

Never with `python -O`: invariants are assertions, and a node that cannot notice a broken one must not hold data. The
first SIGINT or SIGTERM cancels the main task, which then closes its resources. A second one ends the process as if it
had no handler: a user who waits for a close that hangs can still get out.
"""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from penstock.kernel.errors import ConfigError

__all__ = ["let_senders_finish", "refuse_without_assertions", "run"]

T = TypeVar("T")
YOUNG_OBJECTS: Final = 20_000  # made since the last collection: at Python's 700, a server looks for cycles all the time


def refuse_without_assertions() -> None:
    """Raise ConfigError if Python drops assertions."""
    if not __debug__:
        raise ConfigError(
            "Python runs with -O (or PYTHONOPTIMIZE), which drops the assertions that guard the data",
            next_step="start it again without -O and with PYTHONOPTIMIZE unset",
        )


def let_senders_finish() -> None:
    """When a message wakes this process, its sender keeps its processor, because it has more to send.

    A primary which writes to its replicas one after the other would be stopped by the first for as long as that works,
    where there are fewer processors than processes. It costs an idle machine nothing, and needs no privilege.
    """
    if hasattr(os, "SCHED_BATCH"):  # Linux has it
        with suppress(OSError):  # a sandbox may forbid it: then it is as it was
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


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
    gc.freeze()  # loaded modules stay: no collection need look at them again
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
    received: list[signal.Signals] = []
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
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


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return uvloop's if the server extra is installed: a client works on asyncio's own loop too."""
    try:
        from uvloop import new_event_loop
    except ModuleNotFoundError:
        return asyncio.new_event_loop
    return new_event_loop


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
