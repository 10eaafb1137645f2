"""The loop of blocking clients: what is iterated comes in order, is bounded, and ends when nobody wants more."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from tests.cli.pseudo_terminal import CTRL_C, AtTerminal

from penstock.kernel.errors import AlreadyClosed, Unavailable
from penstock.plumbing.process.loop_thread import LoopThread


class Counted:
    """Counts up, for ever or to a failure."""

    def __init__(self, until: int | None = None, failure: Exception | None = None) -> None:
        self.made = 0
        self.ended = threading.Event()
        self._until = until
        self._failure = failure

    async def numbers(self) -> AsyncIterator[int]:
        try:
            while self._until is None or self.made < self._until:
                await asyncio.sleep(0)
                self.made += 1
                yield self.made
            if self._failure is not None:
                raise self._failure
        finally:
            self.ended.set()


@pytest.mark.parametrize("ahead", [1, 7, 1000])
def test_everything_comes_in_order(ahead: int) -> None:
    assert list(LoopThread.shared().iterate(Counted(50).numbers(), ahead=ahead)) == list(range(1, 51))


@pytest.mark.parametrize("ahead", [1, 7])
def test_it_reads_no_further_ahead_than_it_may_and_ends_with_the_loop(ahead: int) -> None:
    counted = Counted()
    numbers = LoopThread.shared().iterate(counted.numbers(), ahead=ahead)
    for wanted in range(1, 30):
        assert next(numbers) == wanted
        assert counted.made <= wanted + 2 * ahead + 1
    numbers.close()  # type: ignore[attr-defined]  # it is a generator
    assert counted.ended.is_set()


def test_a_failure_comes_behind_what_came_before_it() -> None:
    numbers = LoopThread.shared().iterate(Counted(5, Unavailable("gone")).numbers(), ahead=100)
    assert [next(numbers) for _ in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(Unavailable):
        next(numbers)


def test_a_blocking_call_from_inside_the_loop_is_refused() -> None:
    async def nested() -> None:
        LoopThread.shared().run(asyncio.sleep(0))

    with pytest.raises(AlreadyClosed):
        LoopThread.shared().run(nested())


@pytest.mark.parametrize("loaded", ["import polars", "signal.siginterrupt(signal.SIGINT, False)"])
def test_ctrl_c_ends_a_blocking_call_at_a_terminal(loaded: str) -> None:
    script = f"""
import asyncio, signal
from penstock.plumbing.process.loop_thread import LoopThread
{loaded}
async def wait():
    print("ready", flush=True)
    await asyncio.Event().wait()
try:
    LoopThread.shared().run(wait())
except KeyboardInterrupt:
    raise SystemExit(7)
"""
    with AtTerminal("-c", script) as terminal:
        terminal.wait_shown(b"ready")
        terminal.type(CTRL_C)
        assert terminal.ended() == (7, "")


def test_a_time_out_of_the_work_is_raised_as_it_is() -> None:
    async def late() -> None:
        raise TimeoutError("late")

    with pytest.raises(TimeoutError, match="late"):
        LoopThread.shared().run(late())
