import asyncio
from contextlib import aclosing

import pytest

from penstock.lake.member.committed.in_order import in_order


async def test_results_come_in_order_whatever_ends_first() -> None:
    gates = [asyncio.Event() for _ in range(4)]

    async def call(number: int) -> int:
        if number < 3:
            await gates[number + 1].wait()
        gates[number].set()
        return number

    assert [number async for number in in_order(range(4), call, 4)] == [0, 1, 2, 3]


async def test_no_more_are_in_flight_than_allowed() -> None:
    running, most = 0, 0

    async def call(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return number

    assert [number async for number in in_order(range(20), call, 3)] == list(range(20))
    assert most == 3


async def test_a_failure_ends_those_behind_it() -> None:
    cancelled: list[int] = []

    async def call(number: int) -> int:
        if number == 1:
            raise ValueError(number)
        try:
            if number > 1:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    with pytest.raises(ValueError, match="1"):
        [number async for number in in_order(range(4), call, 4)]
    assert cancelled == [2, 3]


async def test_who_leaves_early_leaves_nothing_running() -> None:
    ended: list[int] = []

    async def call(number: int) -> int:
        try:
            if number:
                await asyncio.Event().wait()
        finally:
            ended.append(number)
        return number

    async with aclosing(in_order(range(3), call, 3)) as numbers:
        async for _ in numbers:
            await asyncio.sleep(0)
            break
    assert sorted(ended) == [0, 1, 2]
