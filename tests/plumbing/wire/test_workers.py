"""Workers: to a handler, a worker looks like a task of its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar

import pytest
from structlog.testing import capture_logs
from tests.plumbing.wire.harness import soon, until

from penstock.kernel.errors import Cancelled, InternalError, NotFound, PenstockError
from penstock.plumbing.wire.message import WireCall, WireMessage
from penstock.plumbing.wire.workers import IDLE_MAX, Job, Workers

Result = WireMessage | bytes | PenstockError
VARIABLE: ContextVar[str] = ContextVar("VARIABLE", default="unset")


class Bench:
    """Workers, and what became of their jobs."""

    def __init__(self) -> None:
        self.workers = Workers()
        self.results: dict[int, Result] = {}
        self.finished: list[int] = []

    def submit(self, id: int, handler: Callable[[WireCall], Awaitable[WireMessage | bytes]]) -> Job:
        job = Job(id, WireCall("method", "peer", b"", b"", 0.0), handler, self)
        self.workers.submit(job)
        return job

    def on_done(self, job: Job, reply: WireMessage | bytes) -> None:
        self._end(job, reply)

    def on_failed(self, job: Job, error: PenstockError) -> None:
        self._end(job, error)

    def _end(self, job: Job, result: Result) -> None:
        assert job.id not in self.results, "a job ends once"
        self.results[job.id] = result
        self.finished.append(job.id)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    await bench.workers.close()


async def test_jobs_start_in_order_and_share_a_worker_while_none_waits(bench: Bench) -> None:
    tasks = set()

    async def handler(call: WireCall) -> bytes:
        tasks.add(asyncio.current_task())
        return b"done"

    for id in range(100):
        bench.submit(id, handler)
    await until(lambda: len(bench.results) == 100)
    assert bench.finished == list(range(100))
    assert len(tasks) == 1


async def test_a_job_which_waits_holds_up_no_other(bench: Bench) -> None:
    release = asyncio.Event()

    async def waits(call: WireCall) -> bytes:
        await release.wait()
        return b"late"

    async def quick(call: WireCall) -> bytes:
        return b"early"

    for id in range(200):
        bench.submit(id, quick if id % 2 else waits)
    await until(lambda: len(bench.results) == 100)
    assert bench.finished == list(range(1, 200, 2))
    release.set()
    await until(lambda: len(bench.results) == 200)
    assert {bench.results[id] for id in range(0, 200, 2)} == {b"late"}
    assert len(bench.workers._idle) <= IDLE_MAX


async def test_stopping_a_job_cancels_its_handler_and_no_other(bench: Bench) -> None:
    started, cancelled, release = asyncio.Event(), list[int](), asyncio.Event()

    def waiting(id: int) -> Callable[[WireCall], Awaitable[bytes]]:
        async def handler(call: WireCall) -> bytes:
            started.set()
            try:
                await release.wait()
            except asyncio.CancelledError:
                cancelled.append(id)
                raise
            return b"finished"

        return handler

    jobs = [bench.submit(id, waiting(id)) for id in range(3)]
    await soon(started)
    await until(lambda: all(job.task is not None for job in jobs))
    reason = Cancelled("not wanted any more")
    bench.workers.stop(jobs[1], reason)
    bench.workers.stop(jobs[1], Cancelled("a second time"))
    await until(lambda: 1 in bench.results)
    assert bench.results == {1: reason}
    assert cancelled == [1]
    release.set()
    await until(lambda: len(bench.results) == 3)
    assert (bench.results[0], bench.results[2]) == (b"finished", b"finished")


async def test_a_job_which_has_not_begun_is_stopped_at_once(bench: Bench) -> None:
    ran = []

    async def handler(call: WireCall) -> bytes:
        ran.append(1)
        return b""

    job = bench.submit(7, handler)
    reason = Cancelled("too late")
    bench.workers.stop(job, reason)
    assert bench.results == {7: reason}
    bench.submit(8, handler)
    await until(lambda: 8 in bench.results)
    assert len(ran) == 1


async def test_a_handler_which_survives_its_cancellation_still_gives_its_result(bench: Bench) -> None:
    started = asyncio.Event()

    async def stubborn(call: WireCall) -> bytes:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return b"cleaned up"
        return b""

    job = bench.submit(1, stubborn)
    await soon(started)
    bench.workers.stop(job, Cancelled("stop"))
    await until(lambda: 1 in bench.results)
    assert bench.results[1] == b"cleaned up"


async def test_what_a_handler_raises_is_its_result(bench: Bench) -> None:
    refused = NotFound("no such journal")

    async def refuses(call: WireCall) -> bytes:
        raise refused

    async def breaks(call: WireCall) -> bytes:
        raise ZeroDivisionError

    with capture_logs() as logs:
        bench.submit(1, refuses)
        bench.submit(2, breaks)
        await until(lambda: len(bench.results) == 2)
    assert bench.results[1] is refused
    assert isinstance(bench.results[2], InternalError)
    assert [(line["event"], line["error"]) for line in logs] == [("handler failed", "ZeroDivisionError")]


async def test_context_variables_of_one_handler_are_not_seen_by_the_next(bench: Bench) -> None:
    seen = []

    async def handler(call: WireCall) -> bytes:
        seen.append(VARIABLE.get())
        VARIABLE.set("set by a handler")
        return b""

    for id in range(5):
        bench.submit(id, handler)
    await until(lambda: len(bench.results) == 5)
    assert seen == ["unset"] * 5


async def test_a_handler_may_use_timeouts_and_task_groups(bench: Bench) -> None:
    async def handler(call: WireCall) -> bytes:
        try:
            async with asyncio.timeout(0.001), asyncio.TaskGroup() as group:
                group.create_task(asyncio.Event().wait())
        except TimeoutError:
            return b"timed out"
        return b""

    for id in range(3):
        bench.submit(id, handler)
    await until(lambda: len(bench.results) == 3)
    assert set(bench.results.values()) == {b"timed out"}


async def test_close_ends_running_handlers_and_adopted_tasks() -> None:
    bench, started = Bench(), asyncio.Event()

    async def waits(call: WireCall) -> bytes:
        started.set()
        await asyncio.Event().wait()
        return b""

    async def sleeper() -> None:
        await asyncio.Event().wait()

    bench.submit(1, waits)
    adopted = asyncio.create_task(sleeper())
    bench.workers.adopt(adopted)
    await soon(started)
    await bench.workers.close()
    assert isinstance(bench.results[1], Cancelled)
    assert adopted.cancelled()
