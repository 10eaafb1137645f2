import asyncio

import pytest
from tests.plumbing.wire.harness import until

from penstock.plumbing.wire.line import Line


async def test_first_come_first_served() -> None:
    line, places, gone = Line(), list[int](), list[int]()

    async def enter(number: int) -> None:
        await line.wait(lambda: len(places) > 0)
        places.pop()
        gone.append(number)

    tasks = [asyncio.create_task(enter(number)) for number in range(5)]
    await until(lambda: len(line.waiters) == 5)
    for count in (2, 1, 2):
        places.extend([0] * count)
        line.wake()
        await until(lambda: not places)
    await asyncio.gather(*tasks)
    assert gone == [0, 1, 2, 3, 4]
    assert not line.waiters


@pytest.mark.parametrize("leaver", [0, 1, 2])
async def test_one_who_gives_up_stops_nobody(leaver: int) -> None:
    line, is_open, gone = Line(), False, list[int]()

    async def enter(number: int) -> None:
        await line.wait(lambda: is_open)
        gone.append(number)

    tasks = [asyncio.create_task(enter(number)) for number in range(3)]
    await until(lambda: len(line.waiters) == 3)
    is_open = True
    line.wake()
    tasks[leaver].cancel()  # the first is woken already, and goes without having passed
    await asyncio.gather(*tasks, return_exceptions=True)
    assert gone == [number for number in range(3) if number != leaver]
