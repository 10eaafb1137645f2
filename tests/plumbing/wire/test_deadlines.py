import asyncio
import math
from itertools import pairwise

import pytest
from tests.plumbing.wire.harness import until

from penstock.kernel.errors import DeadlineExceeded, Outcome
from penstock.plumbing.wire.deadlines import DEADLINE_S_MAX, NEVER, DeadlineSweep, deadline_ms_of


class Flights:
    """What is in flight, by deadline."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.sweep = DeadlineSweep(self.loop, self.expire)
        self.deadlines: list[float] = []
        self.expired: list[float] = []
        self.sweeps: list[float] = []

    def add(self, seconds: float) -> None:
        deadline_at = self.loop.time() + seconds
        self.deadlines.append(deadline_at)
        self.sweep.note(deadline_at)

    def expire(self, now: float) -> float:
        self.sweeps.append(now)
        self.expired += [at for at in self.deadlines if at <= now]
        self.deadlines = [at for at in self.deadlines if at > now]
        return min(self.deadlines, default=NEVER)


async def test_each_deadline_is_kept_whatever_the_order_they_were_noted_in() -> None:
    flights = Flights()
    for seconds in (0.03, 0.01, 0.02, 60.0, 0.01):
        flights.add(seconds)
    await until(lambda: len(flights.expired) == 4)
    assert len(flights.deadlines) == 1
    assert max(flights.expired) <= flights.loop.time() < flights.deadlines[0]
    assert flights.sweep.next_at == flights.deadlines[0]
    flights.sweep.close()


async def test_deadlines_which_come_close_together_share_a_sweep() -> None:
    flights = Flights()
    for number in range(1000):
        flights.add(0.01 + number / 100_000)
    await until(lambda: len(flights.expired) == 1000)
    assert len(flights.sweeps) <= 50
    assert all(later > earlier for earlier, later in pairwise(flights.sweeps))


async def test_what_ends_in_time_costs_no_sweep_before_the_earliest_deadline() -> None:
    flights = Flights()
    flights.add(60.0)
    flights.deadlines.clear()
    for _ in range(100):
        flights.add(120.0)
    assert flights.sweeps == []
    flights.sweep.close()
    assert flights.sweep.next_at == NEVER


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [(0.0001, 1), (0.0015, 1), (2.5, 2500), (DEADLINE_S_MAX, 4_000_000_000), (DEADLINE_S_MAX + 1, 0), (math.inf, 0)],
)
def test_a_deadline_in_a_frame_is_never_zero_unless_there_is_none(seconds: float, milliseconds: int) -> None:
    assert deadline_ms_of(seconds) == milliseconds
    assert milliseconds < 2**32


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, -math.inf])
def test_a_deadline_which_has_passed_is_definite(seconds: float) -> None:
    with pytest.raises(DeadlineExceeded) as caught:
        deadline_ms_of(seconds)
    assert caught.value.outcome is Outcome.DEFINITE
