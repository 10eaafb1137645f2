"""Timers never fire before their time, by the machine's own clock, whatever the event loop thinks."""

import asyncio

from penstock.kernel.ids import MILLISECOND, Instant
from penstock.plumbing.host.timers import Timers


class Desk:
    """A clock which somebody else moves, and what has fired by it."""

    def __init__(self) -> None:
        self.now = 0
        self.fired: list[tuple[str, int]] = []
        self.has_fired = asyncio.Event()

    def read(self) -> int:
        self.now += MILLISECOND // 10  # slower than the loop's: whenever that looks, it is early
        return self.now

    def fire(self, name: str) -> None:
        self.fired.append((name, self.now))
        self.has_fired.set()


async def test_a_timer_waits_for_its_time_when_the_loop_is_early() -> None:
    desk = Desk()
    timers = Timers(desk.read, desk.fire)
    timers.set("t", Instant(2 * MILLISECOND))
    await desk.has_fired.wait()
    assert desk.fired == [("t", 2 * MILLISECOND)]


async def test_a_timer_which_is_moved_or_cancelled_fires_once_or_never() -> None:
    desk = Desk()
    timers = Timers(desk.read, desk.fire)
    timers.set("moved", Instant(0))
    timers.set("moved", Instant(MILLISECOND))
    timers.set("cancelled", Instant(0))
    timers.cancel("cancelled")
    timers.cancel("never set")
    await desk.has_fired.wait()
    assert [name for name, _ in desk.fired] == ["moved"]
    timers.set("cleared", Instant(0))
    timers.clear()
    await asyncio.sleep(0.002)
    assert [name for name, _ in desk.fired] == ["moved"]
