"""Workers: threads that do one piece of work after the other, for one owner. The port through which code starts one.

What always holds: all methods of a body are called by its worker, one at a time, in the order of `put`. `tell` comes
once for each piece of work, when that is done.
"""

from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, Protocol

__all__ = ["SerialWorker", "SerialWorkers", "SystemWorkers", "WorkerBody"]

_STOP: Final = object()


class WorkerBody(Protocol):
    """The code that a worker runs."""

    def do(self, work: Any) -> Any:
        """Do a piece of work; return what to tell of it. It may block, and never raises."""
        ...

    def tell(self, done: Any) -> bool:
        """Tell the owner of it. False ends the worker, because its owner has gone."""
        ...

    def idle(self) -> None:
        """Use the time while there is no work."""
        ...

    def end(self) -> None:
        """Give everything back, after the last piece of work."""
        ...


class SerialWorker(Protocol):
    """A worker as its owner sees it."""

    def put(self, work: Any) -> None:
        """Have this done next."""
        ...

    def stop(self) -> None:
        """Let the worker end after the last piece of work."""
        ...

    def join(self) -> None:
        """Return when the worker has ended. Blocks."""
        ...


class SerialWorkers(Protocol):
    """Starts workers."""

    def start(self, name: str, body: WorkerBody, idle_s: float | None) -> SerialWorker:
        """Start a worker; `idle_s` without work call `idle`, once until the next piece of work."""
        ...


class SystemWorkers:
    """Threads of this process. They do not keep it alive."""

    def start(self, name: str, body: WorkerBody, idle_s: float | None) -> SerialWorker:
        return _ThreadWorker(name, body, idle_s)


class _ThreadWorker:
    def __init__(self, name: str, body: WorkerBody, idle_s: float | None) -> None:
        self._body = body
        self._idle_s = idle_s
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self.put = self._queue.put
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._queue.put(_STOP)

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        body = self._body
        try:
            while (work := self._take()) is not _STOP:
                if not body.tell(body.do(work)):
                    break
        finally:
            body.end()

    def _take(self) -> Any:
        try:
            return self._queue.get(timeout=self._idle_s)
        except Empty:
            self._body.idle()
            return self._queue.get()
