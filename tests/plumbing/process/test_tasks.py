"""Tasks: none is lost, none fails unheard, all end with their owner."""

import asyncio

import pytest

from penstock.plumbing.process.tasks import Tasks


async def test_a_failure_is_told_once() -> None:
    told: list[BaseException] = []
    tasks = Tasks(told.append)

    async def fails() -> None:
        raise ValueError("no")

    task = tasks.start(fails(), "fails")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert [str(error) for error in told] == ["no"]
    await tasks.close()


async def test_closing_cancels_and_waits() -> None:
    told: list[BaseException] = []
    tasks = Tasks(told.append)
    ended: list[str] = []

    async def lasts() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("yes")

    tasks.start(lasts(), "lasts")
    await asyncio.sleep(0)
    await tasks.close()
    assert (ended, told) == (["yes"], [])
    with pytest.raises(asyncio.CancelledError):
        tasks.start(lasts(), "too late")
