"""A process which is a member of a cluster: a broker, a consumer. What all of them run on, and how they end.

Losing its lease, its mirror or its allocator ends it: `failed` then raises, and the process should end, so that another
life begins with a new lease. A process that is asked to end drains first: others take over its items.
"""

import asyncio
import contextlib
from contextlib import AsyncExitStack

from penstock.kernel.errors import PenstockError, Unavailable
from penstock.keyspace.core.allocator import Policy
from penstock.keyspace.core.allocator.layout import Layout, MemberId
from penstock.keyspace.core.records import LeaseId
from penstock.keyspace.shell.allocator import AllocatorDaemon
from penstock.keyspace.shell.membership import Membership
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.neighbours import LifeAnswers
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.ports.ports import Clocks
from penstock.plumbing.wire.service import Service
from penstock.plumbing.wiring.listening import listening
from penstock.plumbing.wiring.wiring import Wiring

__all__ = ["RunningMember"]


class RunningMember:
    """A member, and its connections. Each kind of member adds its service, and its way to drain."""

    def __init__(self) -> None:
        self.address: str  # that others dial
        self.membership: Membership
        self._lease: LeaseId | None = None  # since it is announced
        self.allocator: AllocatorDaemon
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fail(self, error: PenstockError) -> None:
        """End the member with an error. The first reason counts."""
        if not self._failure.done():
            self._failure.set_exception(error)
            self._failure.exception()  # retrieved, even if no task waits any more

    async def failed(self) -> None:
        """Wait until the member cannot continue; raise the reason."""
        await asyncio.shield(self._failure)

    async def until_told(self) -> None:
        """Serve until this task is cancelled, as a signal does, then drain. A failure ends it at once."""
        try:
            await self.failed()
        except asyncio.CancelledError:
            current = asyncio.current_task()
            assert current is not None
            current.uncancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.drain()
            raise

    async def drain(self) -> list[str]:
        """Have others take over everything; return the items that no other member could take."""
        raise NotImplementedError

    @property
    def is_fit(self) -> bool:
        """Return whether it can serve. One that cannot does not answer its neighbours, and is passed over."""
        return True

    # how it begins, in this order

    async def listen(self, stack: AsyncExitStack, service: Service, wiring: Wiring) -> None:
        wiring.check_announced()
        answers = LifeAnswers(lambda: self._lease if self.is_fit else None)
        answers.offer(service)
        self.address = wiring.announced((await listening(stack, service, wiring)).address)
        stack.callback(answers.close)

    async def announce(
        self,
        stack: AsyncExitStack,
        keyspace: KeySpace,
        mirror: KeySpaceMirror,
        key: str,
        value: bytes,
        clock: Clocks,
        *,
        lease_ms: int,
    ) -> None:
        """Be a member, which its own mirror shows: from now on something may be assigned to it."""
        self.membership = await Membership.announce(
            keyspace,
            key,
            value,
            clock.boot_ns,
            lease_ms=lease_ms,
            on_lost=lambda reason: self.fail(Unavailable(f"the lease is lost: {reason}")),
        )
        self._lease = self.membership.lease
        stack.push_async_callback(self.membership.close)
        await mirror.wait_for_revision(self.membership.revision)

    def allocate(
        self,
        stack: AsyncExitStack,
        keyspace: KeySpace,
        mirror: KeySpaceMirror,
        layout: Layout,
        member: MemberId,
        policy: Policy,
    ) -> None:
        """Run its allocator, which works while this member is the oldest."""
        self.allocator = AllocatorDaemon.start(keyspace, mirror, layout.root, member, policy, on_failure=self.fail)
        stack.push_async_callback(self.allocator.close)
