"""An event loop on virtual time, one per process (W1): FIFO as asyncio promises, without a selector, without threads.

What always holds: a loop's ready queue is never reordered (W2); a turn runs exactly what was ready when it began; a
dead process's loop never turns again, and a frozen one not before it thaws; tasks and futures hash to their number
(W4). The seed draws when a loop turns, how early a timer fires (uvloop: up to 1 ms), and how long a worker takes.
"""

import asyncio
import contextlib
import sys
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from heapq import heappop
from typing import TYPE_CHECKING, Any, Final

from penstock_lab.world.guard import Ended

if TYPE_CHECKING:
    from penstock_lab.world.process import Life

__all__ = ["NodeLoop"]

TURN_NS: Final = (1_000, 20_000)
WORKER_NS: Final = (5_000, 100_000)
LEARN_NS: Final = (1_000, 20_000)
CLOSES_MAX: Final = 20  # a coroutine that awaits while it ends is ended again
CANCELLED_MAX: Final = 200  # timers which lie in the heap for nothing


class _Future(asyncio.Future[Any]):
    """A future whose place in a set does not hang on its address."""

    def __init__(self, *, loop: "NodeLoop") -> None:
        self.number = loop.process.world.next_number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class _Task(asyncio.Task[Any]):
    def __init__(self, coro: Any, *, loop: "NodeLoop", name: Any = None, context: Context | None = None) -> None:
        self.number = loop.process.world.next_number()  # before asyncio puts it into a set
        super().__init__(coro, loop=loop, name=name or f"task {self.number}", context=context)

    def __hash__(self) -> int:
        return self.number


_Base: Any = asyncio.BaseEventLoop  # typing knows nothing of its insides, which a turn needs


class NodeLoop(_Base):  # type: ignore[misc]
    """The loop of one process of a world."""

    def __init__(self, process: "Life") -> None:
        self.process = process
        self._is_turn_due = True  # while the base class begins: it asks for a turn
        self._wakes_at: float | None = None
        self._hooks: Any = None
        super().__init__()
        self._cancelled = 0
        self._clock_resolution = 1e-9
        self._early_s = process.rng.choice((0.0, 0.0, 0.000_3, 0.001))
        self._is_turn_due = False
        self.set_task_factory(_task)

    # Time, and turns

    def time(self) -> float:
        return self.process.clock.monotonic_ns() / 1e9

    def is_running(self) -> bool:
        return True

    def _turn_soon(self) -> None:
        if not self._is_turn_due and not self.process.is_dead:
            self._is_turn_due = True
            process = self.process
            wait_ns = process.rng.randint(*TURN_NS)
            process.world.at(max(process.world.now_ns, process.busy_until_ns) + wait_ns, self._turn)

    def _turn(self) -> None:
        process = self.process
        if process.is_dead:
            return
        if process.is_frozen:
            process.when_thawed(self._turn)
            return
        self._is_turn_due = False
        process.world.turns += 1
        ready, scheduled = self._ready, self._scheduled
        now = self.time() + self._early_s
        while scheduled and scheduled[0]._when <= now:
            timer = heappop(scheduled)
            timer._scheduled = False
            if not timer._cancelled:
                ready.append(timer)
        before = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._asyncgen_firstiter_hook, finalizer=self._asyncgen_finalizer_hook)
        events._set_running_loop(self)
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                if process.is_dead:  # it was killed from within, by a rule of the world
                    break
        except Ended:
            pass  # the guard has told the world why
        finally:
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*before)
        if ready:
            self._turn_soon()
        self._wake_for_timers()

    def _wake_for_timers(self) -> None:
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            timer = heappop(scheduled)
            timer._scheduled = False
        if not scheduled:
            self._wakes_at = None
            return
        when = scheduled[0]._when
        if self._wakes_at is None or when < self._wakes_at:
            self._wakes_at = when
            world = self.process.world
            # rounded up: a turn before its time would find nothing to do, and begin again
            world.at(self.process.clock.world_ns((when - self._early_s) * 1e9) + 1, self._wake, when)

    def _wake(self, when: float) -> None:
        if self._wakes_at == when:
            self._wakes_at = None
            self._turn_soon()

    # What asyncio asks for

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        self._turn_soon()
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        handle: asyncio.TimerHandle = super().call_at(when, callback, *args, context=context)
        self._wake_for_timers()
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Call the function as one event of the process, later (W3). The result arrives when its disk time is over."""
        future: asyncio.Future[Any] = self.create_future()
        self.process.work(lambda: func(*args), lambda error, result: self._learn(future, error, result))
        return future

    def _learn(self, future: asyncio.Future[Any], error: BaseException | None, result: Any) -> None:
        def set_result() -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_soon(set_result)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **how: Any) -> Any:
        assert how.get("ssl") is None, "no TLS in a world"
        return await self.process.world_links.connect(self.process, protocol_factory, (str(host), int(port)))

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **how: Any) -> Any:
        assert how.get("ssl") is None, "no TLS in a world"
        return self.process.world_links.listen(self.process, protocol_factory, str(host), int(port or 0))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A callback or a task that failed unheard fails the seed (W8)."""
        process, error = self.process, context.get("exception")
        if process.is_dead or process.world.is_over:
            return
        process.world.fail(f"{process.name}: {context.get('message')}: {error!r}{_where(error)}")

    def run_until_complete(self, future: Generator[Any, None, Any] | Coroutine[Any, Any, Any] | Any) -> Any:
        """Let the world run until a task of this process is done: how a test waits in a world."""
        task = future if asyncio.isfuture(future) else self.create_task(future)
        world = self.process.world
        while not task.done() and world.step():
            pass
        world.check()
        assert task.done(), f"nothing will ever happen that {task!r} waits for"
        return task.result()

    def let_go(self) -> None:
        """End every task at once. The world is over: their `finally` blocks reach nothing, and fail unheard."""
        events._set_running_loop(self)
        ended: set[Any] = set()
        while tasks := asyncio.all_tasks(self) - ended:  # a task that ends may start others, which never run
            ended |= tasks
            for task in tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                for _ in range(CLOSES_MAX):
                    with contextlib.suppress(BaseException):
                        task.get_coro().close()
                        break
        events._set_running_loop(None)
        self._ready.clear()
        self._scheduled.clear()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        return

    def __del__(self) -> None:
        """There is nothing to give back."""

    def _write_to_self(self) -> None:
        return

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        self._asyncgens.discard(agen)
        if not self.process.is_dead and not self.process.world.is_over:
            self.call_soon(self.create_task, agen.aclose())

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled += 1
        if self._cancelled > CANCELLED_MAX and self._cancelled * 2 > len(self._scheduled):
            kept = [timer for timer in self._scheduled if not timer._cancelled]
            for timer in self._scheduled:
                timer._scheduled = not timer._cancelled
            self._scheduled[:] = sorted(kept)
            self._cancelled = 0


def _task(loop: Any, coro: Any, context: Context | None = None) -> asyncio.Future[Any]:
    return _Task(coro, loop=loop, context=context)


def _where(error: Any) -> str:
    """Return the last lines of an error's trace, which say where it came from."""
    from traceback import format_exception

    return "\n" + "".join(format_exception(error)[-6:]) if isinstance(error, BaseException) else ""
