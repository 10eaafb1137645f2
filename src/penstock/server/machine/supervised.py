"""A role that is restarted when it fails. Design: operating.md O1.

A role that fails before it has served once ends the process: its configuration or its data are wrong. Later failures
restart it, after a pause that doubles. Three failures within ten minutes end the process with the last reason.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from penstock.kernel.errors import PenstockError, Unavailable
from penstock.plumbing.process.health import Finding, HealthState
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.metrics import counter

__all__ = ["FAILURES_MAX", "RunningRole", "SupervisedRole"]

FAILURES_MAX: Final = 3
WITHIN_S: Final = 600.0
PAUSE_S: Final = 0.5
PAUSE_S_MAX: Final = 8.0
RESTARTS = counter("role_restarts_total", "Restarts of a failed role within its process.", ["role"])
log = get_logger()


class RunningRole(Protocol):
    """A role that serves."""

    async def ended(self) -> None:
        """Wait until it cannot continue; raise the reason."""
        ...

    async def drain(self) -> None:
        """Hand over its work before it ends."""
        ...


Opener = Callable[[], AbstractAsyncContextManager[RunningRole]]


class SupervisedRole:
    """One role of a process."""

    def __init__(self, name: str, open_: Opener, *, pause_s: float = PAUSE_S) -> None:
        self.name = name
        self.running: RunningRole | None = None
        self.reason = ""  # of the last failure, while the role does not run
        self.ready = asyncio.Event()  # it has served once
        self._open = open_
        self._pause_s = pause_s
        self._failures: deque[float] = deque()

    def look(self) -> Finding | None:
        """Look whether it serves, for `/readyz`."""
        if self.running is not None:
            return None
        why = self.reason or "it has not started yet"
        return Finding(f"the {self.name} does not run: {why}", "penstock status", HealthState.FAILED)

    async def run(self) -> None:
        """Keep the role running; raise when it must not be restarted any more."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with self._open() as running:
                    self.running, self.reason = running, ""
                    self.ready.set()
                    await running.ended()
            except PenstockError as error:
                self.running, self.reason = None, error.message
                if not self.ready.is_set():
                    raise
                self._check_often(error, loop.time())
            finally:
                self.running = None
            RESTARTS.labels(self.name).inc()
            await asyncio.sleep(min(self._pause_s * 2 ** (len(self._failures) - 1), PAUSE_S_MAX))

    def _check_often(self, error: PenstockError, now: float) -> None:
        self._failures.append(now)
        while now - self._failures[0] > WITHIN_S:
            self._failures.popleft()
        log.error("role failed", role=self.name, reason=error.message, failures=len(self._failures))
        if len(self._failures) >= FAILURES_MAX:
            raise Unavailable(
                f"the {self.name} failed {FAILURES_MAX} times in {WITHIN_S / 60:.0f} minutes; "
                f"the last time: {error.message}",
                next_step=error.next_step or "penstock doctor",
            ) from error
