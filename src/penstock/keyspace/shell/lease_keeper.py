"""Keeps a process's lease alive, and tells it when the lease is lost, so that it can end.

Losing the lease ends the process (gazette.md §1.4): its keys are gone, others may serve in its place, and a new life
gets a new lease. The keeper declares a loss in two cases, whichever comes first:

- the KeySpace says so: `LeaseExpired`;
- no renewal got through for the lease's whole time, counted by our own clock from before the last good one was asked
  for. The lease may then have ended without our knowledge (cut off, paused, suspended), so we must act as if it had.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Self

from penstock.kernel.errors import Indeterminate, LeaseExpired, PenstockError, Unavailable
from penstock.kernel.ids import MILLISECOND
from penstock.keyspace.core.records import Lease, LeaseId
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.process.logs import get_logger

__all__ = ["LeaseKeeper"]

TICK_S: Final = 0.002  # timers may fire a millisecond early
log = get_logger()


class LeaseKeeper:
    """Holds one lease. Make it with `start`; `on_lease_lost` is called at most once, on the event loop."""

    def __init__(
        self,
        keyspace: KeySpace,
        lease: Lease,
        asked_ns: int,
        on_lease_lost: Callable[[str], None],
        clock: Callable[[], int],
    ) -> None:
        self.lease = lease
        self.lost_because: str | None = None
        self._keyspace = keyspace
        self._on_lease_lost = on_lease_lost
        self._clock = clock
        self._good_until_ns = asked_ns + lease.ttl_ms * MILLISECOND
        self._task = asyncio.create_task(self._keep(), name="lease-keeper")

    @classmethod
    async def start(
        cls,
        keyspace: KeySpace,
        ttl_ms: int,
        on_lease_lost: Callable[[str], None],
        clock: Callable[[], int],
    ) -> Self:
        """Take a new lease and keep it."""
        asked_ns = clock()
        return cls(keyspace, await keyspace.grant_lease(ttl_ms), asked_ns, on_lease_lost, clock)

    @property
    def id(self) -> LeaseId:
        return self.lease.id

    @property
    def is_good(self) -> bool:
        """True if the lease cannot have ended yet, by our own clock. Also right before the keeper has woken up."""
        return self.lost_because is None and self._clock() < self._good_until_ns

    async def close(self, *, revoke: bool = True) -> None:
        """Stop keeping; with `revoke`, end the lease too, and its keys: others need not wait for it to run out."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        if not revoke or self.lost_because is not None:
            return
        try:
            async with asyncio.timeout(self._good_for_s()):
                await self._keyspace.revoke_lease(self.id)
        except (LeaseExpired, Unavailable, Indeterminate, TimeoutError) as error:
            log.info("lease not revoked", lease=self.id, reason=str(error) or "it took too long")  # it ends by itself

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _keep(self) -> None:
        """Renew three times in the lease's life, so that two may fail."""
        pause_s = self.lease.ttl_ms / 3_000
        while self.lost_because is None:
            await asyncio.sleep(min(pause_s, self._good_for_s()))
            left_s = self._good_for_s()
            if left_s > TICK_S:
                await self._renew()
            elif left_s:
                await asyncio.sleep(TICK_S)  # a timer fired early: no answer could come in time
            else:
                self._lose(f"it could not be renewed for {self.lease.ttl_ms} ms")

    def _good_for_s(self) -> float:
        return max(0, self._good_until_ns - self._clock()) / 1e9

    async def _renew(self) -> None:
        asked_ns = self._clock()
        try:
            async with asyncio.timeout(self._good_for_s()):
                await self._keyspace.keep_alive(self.id)
        except LeaseExpired as expired:
            self._lose(str(expired))
        except (Unavailable, Indeterminate, TimeoutError) as error:
            log.info("lease not renewed", lease=self.id, reason=str(error))
        except PenstockError as error:
            self._lose(f"the KeySpace failed: {error}")
        else:
            self._good_until_ns = asked_ns + self.lease.ttl_ms * MILLISECOND

    def _lose(self, reason: str) -> None:
        self.lost_because = reason
        log.error("lease lost", lease=self.id, reason=reason)
        self._on_lease_lost(reason)
