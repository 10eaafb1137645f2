import asyncio
import subprocess
import sys
import threading

import pytest

from penstock.kernel.errors import AlreadyClosed
from penstock.plumbing.objects.threads import Steps, Threads, all_of

SCRIPT = """
import asyncio
from penstock.plumbing.objects import open_store

async def main():
    async with open_store("memory://") as store:
        await store.put("a", b"x")
        async with store.writer("b") as writer:
            await writer.write(bytes(6 << 20))
        async with store.reader("b") as reader:
            print(sum([len(chunk) async for chunk in reader]))

asyncio.run(main())
"""


def test_a_script_which_ends_right_after_its_last_call_ends_well() -> None:
    command = [sys.executable, "-c", SCRIPT]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(8)]
    ends = [(*run.communicate(), run.returncode) for run in runs]
    assert ends == [(f"{6 << 20}\n", "", 0)] * len(runs)


async def test_what_was_opened_for_nobody_is_given_back() -> None:
    threads = Threads("store", 1)
    go, given_back = threading.Event(), asyncio.get_running_loop().create_future()

    def opened() -> str:
        assert go.wait(10)
        return "file"

    task = asyncio.create_task(threads.take(opened, given_back.set_result))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    assert await given_back == "file"
    await threads.close()


async def test_closing_waits_for_what_runs_and_refuses_what_comes() -> None:
    threads = Threads("the store", 1)
    go = threading.Event()
    running = threads.run(lambda: go.wait(10))
    closing = asyncio.create_task(threads.close())
    await asyncio.sleep(0)
    with pytest.raises(AlreadyClosed, match="the store is closed"):
        threads.run(lambda: None)
    go.set()
    await closing
    assert running.done()
    await threads.close()


async def test_a_stream_is_quiet_only_when_its_last_call_has_ended() -> None:
    threads = Threads("store", 2)
    steps = Steps(threads)
    await steps.quiet()
    go, ended = threading.Event(), threading.Event()

    def call() -> None:
        assert go.wait(10)
        ended.set()

    task = asyncio.create_task(steps.do(call))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    await steps.quiet()
    assert ended.is_set()
    await threads.close()


async def test_if_one_call_of_several_fails_the_others_are_ended() -> None:
    ended: list[int] = []

    async def wait(number: int) -> int:
        try:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]
        finally:
            ended.append(number)

    async def fail() -> int:
        await asyncio.sleep(0)
        raise OSError("one")

    async def give(number: int) -> int:
        return number

    assert await all_of(map(give, (1, 2, 3))) == (1, 2, 3)
    with pytest.raises(OSError, match="one"):
        await all_of([wait(1), fail(), wait(2)])
    assert ended == [1, 2]
