"""A member's check: a SYNC that comes back from the queue within two seconds. Design: operating.md O19.

Each look starts a SYNC, if the last one began a second ago. So the answer is about the present, also on an idle lake,
and a look never waits.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.kernel.errors import PenstockError
from penstock.plumbing.process.health import Finding, Health, HealthState

if TYPE_CHECKING:
    from penstock.lake.member.engine import Host

__all__ = ["LAKE_CHECKS", "add_lake_checks"]

ROLE: Final = "lake"
LAKE_CHECKS: Final = ("lake.queue",)
AGAIN_S: Final = 1.0
LATE_S: Final = 2.0


def add_lake_checks(health: Health, host: "Host") -> Callable[[], None]:
    """Register the check of a member; return a call that removes it."""
    queue = _Queue(host)
    remove = health.add(LAKE_CHECKS[0], ROLE, queue.look)

    def end() -> None:
        remove()
        queue.close()

    return end


class _Queue:
    """SYNCs of a member, one at a time."""

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._began = -AGAIN_S
        self._error = ""
        self._sync: asyncio.Task[None] | None = None

    def look(self) -> Finding | None:
        now = self._loop.time()
        if self._host.failed:
            return Finding(f"the member has stopped: {self._host.failed}", "penstock up", HealthState.FAILED)
        if self._sync is None and now - self._began >= AGAIN_S:
            self._began = now
            self._sync = self._loop.create_task(self._run(), name="health: SYNC")
        waits_s = now - self._began if self._sync is not None else 0.0
        if waits_s > LATE_S or self._error:
            why = self._error or f"the queue has not returned a SYNC for {waits_s:.1f} s"
            return Finding(why, "penstock quorum shards", HealthState.FAILED)
        return None

    async def _run(self) -> None:
        try:
            await self._host.sync()
            self._error = ""
        except PenstockError as error:
            self._error = error.message
        finally:
            self._sync = None

    def close(self) -> None:
        if self._sync is not None:
            self._sync.cancel()
