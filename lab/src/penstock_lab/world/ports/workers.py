"""The workers of a simulated process (W3): each piece of work is one event, and its result comes after its disk time.

What always holds: a worker does one thing at a time, in the order of `put`; a frozen process's workers do nothing.
"""

from collections import deque
from typing import TYPE_CHECKING, Any

from penstock.plumbing.ports.workers import SerialWorker, WorkerBody

if TYPE_CHECKING:
    from penstock_lab.world.process import Life

__all__ = ["SimulatedWorkers"]


class SimulatedWorkers:
    """Starts the workers of one life of a process."""

    def __init__(self, process: "Life") -> None:
        self._process = process

    def start(self, name: str, body: WorkerBody, idle_s: float | None) -> SerialWorker:
        return _SimulatedWorker(self._process, body, idle_s)


class _SimulatedWorker:
    def __init__(self, process: "Life", body: WorkerBody, idle_s: float | None) -> None:
        self._process = process
        self._body = body
        self._idle_s = idle_s
        self._queue: deque[Any] = deque()
        self._is_busy = False
        self._is_stopping = False
        self._is_over = False
        self._idle_number = 0  # of the wait for work: an older one that ends means nothing
        self._wait()

    def put(self, work: Any) -> None:
        self._queue.append(work)
        self._next()

    def stop(self) -> None:
        self._is_stopping = True
        self._next()

    def join(self) -> None:
        """End at once, because no time passes here. The owner has waited for all of its work."""
        self._end()

    def _next(self) -> None:
        if self._is_busy or self._is_over:
            return
        self._idle_number += 1
        if self._queue:
            self._is_busy = True
            work = self._queue.popleft()
            self._process.work(lambda: self._body.do(work), self._done)
        elif self._is_stopping:
            self._process.work(self._end, lambda error, _: None)
        else:
            self._wait()

    def _done(self, error: BaseException | None, result: Any) -> None:
        assert error is None, error
        self._is_busy = False
        if not self._is_over and self._body.tell(result):
            self._next()
        else:
            self._end()

    def _wait(self) -> None:
        if self._idle_s is not None:
            self._process.later(int(self._idle_s * 1e9), self._idle, self._idle_number)

    def _idle(self, number: int) -> None:
        if number == self._idle_number and not self._is_busy and not self._is_over:
            self._is_busy = True
            self._process.work(self._body.idle, self._idled)

    def _idled(self, error: BaseException | None, _: Any) -> None:
        assert error is None, error
        self._is_busy = False
        if self._queue or self._is_stopping:
            self._next()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._body.end()
