"""Workers: tasks which run the handlers of unary requests, one after the other.

A task of its own for each request costs more than everything else a small request needs. So a worker runs every waiting
job until one has to wait itself; then the next worker takes the rest. To a handler it looks like a task of its own:
cancelling the job cancels only that handler, and a worker whose handler was cancelled, or changed the context
variables, is not used again. What always holds: jobs start in the order in which they were submitted, and none waits
for one that is running.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Final, Protocol

import msgspec

from penstock.kernel.errors import Cancelled, InternalError, PenstockError
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wire.message import WireCall, WireMessage

__all__ = ["Job", "Workers"]

IDLE_MAX: Final = 64  # workers kept for later
CLOSE_SECONDS_MAX: Final = 5.0
log = get_logger()


class JobOwner(Protocol):
    """A callback for the end of a job. One of these is called, once per job; neither may raise."""

    def on_done(self, job: "Job", reply: WireMessage | bytes) -> None: ...
    def on_failed(self, job: "Job", error: PenstockError) -> None: ...


class Job(msgspec.Struct, eq=False):
    """A request on its way through a handler."""

    id: int
    call: WireCall
    handler: Callable[[WireCall], Awaitable[WireMessage | bytes]]
    owner: JobOwner
    task: "asyncio.Task[None] | None" = None  # while it runs
    stopped_for: PenstockError | None = None  # it was asked to stop


class Workers:
    """Runs jobs. Jobs submitted in one turn of the loop share one wake-up, as far as they do not have to wait."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[Job] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_pump_due = False
        self._burst = 1  # how many workers the next pump wakes
        self._woken = 0  # workers which were woken, and have not looked at the jobs yet

    def submit(self, job: Job) -> None:
        """Run the job in the coming turn of the loop."""
        self._jobs.append(job)
        if self._is_pump_due:
            return
        if self._woken:  # it takes this one too, unless it has to wait before
            self._is_pump_due = True
            self._loop.call_soon(self._pump)
        else:
            self._wake()

    def stop(self, job: Job, reason: PenstockError) -> None:
        """Cancel a job. Its owner gets a callback when the handler has ended; at once if it had not begun."""
        if job.stopped_for is not None:
            return
        job.stopped_for = reason
        if job.task is not None:
            job.task.cancel()
        else:
            self._jobs.remove(job)
            job.owner.on_failed(job, reason)

    def adopt(self, task: "asyncio.Task[None]") -> None:
        """Let `close` end this task too."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all workers and adopted tasks. A handler which will not be cancelled is left behind, and named."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=CLOSE_SECONDS_MAX)
            for task in left:
                log.error("handler ignores its cancellation", task=repr(task))

    def _pump(self) -> None:
        """The worker woken before had its step, and jobs are left: it has to wait. Wake one more, then two, four …"""
        for _ in range(min(self._burst, len(self._jobs))):
            self._wake()
        if self._jobs:
            self._burst *= 2
            self._loop.call_soon(self._pump)
        else:
            self._burst = 1
            self._is_pump_due = False

    def _wake(self) -> None:
        self._woken += 1
        while self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.adopt(self._loop.create_task(self._work()))

    async def _work(self) -> None:
        jobs = self._jobs
        task: asyncio.Task[None] | None = asyncio.current_task()
        clean = copy_context()
        while True:
            self._woken -= 1
            while jobs:
                job = jobs.popleft()
                job.task = task
                try:
                    reply = await job.handler(job.call)
                except BaseException as error:
                    job.task = None
                    job.owner.on_failed(job, _failure(job, error))
                else:
                    job.task = None
                    job.owner.on_done(job, reply)
                if job.stopped_for is not None or copy_context() != clean:
                    return
            if len(self._idle) >= IDLE_MAX:
                return
            waiter = self._loop.create_future()
            self._idle.append(waiter)
            await waiter


def _failure(job: Job, error: BaseException) -> PenstockError:
    """Return the error for the client when a handler has raised this."""
    match error:
        case asyncio.CancelledError():
            job.stopped_for = job.stopped_for or Cancelled("the handler was cancelled")
            return job.stopped_for
        case PenstockError():
            return error
        case Exception():
            name = type(error).__name__
            log.error("handler failed", method=job.call.method, peer=job.call.peer, error=name, exc_info=error)
            return InternalError(f"a defect in the handler of {job.call.method}")
        case _:
            raise error
