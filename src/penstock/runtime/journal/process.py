"""A broker as something that runs: opened in order, closed in reverse, all it needs in one place.

Losing its lease, its mirror or its allocator ends it: `running_broker` then raises inside the block, and the process
should end, so that another life begins with a new lease. A process which is told to end drains first: the allocator
gives its journals to others, and it stores what it still holds. So nothing is lost when a whole cluster is restarted
one by one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from penstock.base.errors import PenstockError, Unavailable
from penstock.journal.allocation import BrokerSpec, JournalPolicy
from penstock.journal.route import decoders
from penstock.keyspace.allocator.layout import Layout, MemberId
from penstock.runtime.allocator import AllocatorDaemon
from penstock.runtime.journal.broker_server import BrokerServer
from penstock.runtime.journal.broker_service import BrokerService
from penstock.runtime.journal.config import BrokerConfig
from penstock.runtime.keyspace.mirror import KeySpaceMirror
from penstock.runtime.keyspace.port import KeySpace
from penstock.runtime.logs import get_logger
from penstock.runtime.membership import Membership
from penstock.runtime.quorum.peers import Channels
from penstock.runtime.tasks import Tasks
from penstock.runtime.wire.limits import Limits
from penstock.runtime.wire.server import Server
from penstock.runtime.wire.service import Service
from penstock.runtime.wiring import Wiring

__all__ = ["BROKER_LIMITS", "RunningBroker", "running_broker"]

MIB = 1 << 20
# A stream per journal and peer on one connection; a peer which is paused is noticed within seconds.
BROKER_LIMITS = Limits(
    frame_bytes_max=8 * MIB,
    stream_window_bytes=8 * MIB,
    streams_max=65_536,
    write_bytes_max=8 * MIB,
    keepalive_ms=2_000,
    pong_ms=3_000,
)
log = get_logger()


class RunningBroker:
    """A broker, and what it runs on."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.server: BrokerServer
        self.wire: Server
        self.membership: Membership
        self.allocator: AllocatorDaemon
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def address(self) -> str:
        return self.wire.address

    def fail(self, error: PenstockError) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)
            self._failure.exception()  # heard, even if nobody waits any more

    async def failed(self) -> None:
        """Wait until the broker cannot go on; raises why."""
        await asyncio.shield(self._failure)

    async def drain(self) -> list[str]:
        """Have others take over every journal, and store what is left; return what nobody could take."""
        spec = BrokerSpec(endpoint=self.address, limit=self.config.limit, is_exiting=True)
        log.info("broker drains", broker=self.server.me, journals=len(self.server.hosts))
        draining = asyncio.create_task(
            self.allocator.drain(self.membership, spec.encode(), wait_s=self.config.drain_s), name="drains"
        )
        useless = asyncio.create_task(self.server.cannot_be_relieved(), name="cannot be relieved")
        await asyncio.wait({draining, useless}, return_when=asyncio.FIRST_COMPLETED)
        for task in (draining, useless):
            task.cancel()
        await asyncio.gather(draining, useless, return_exceptions=True)
        left = self.allocator.assigned_items
        self.server.exit()
        await self.membership.close()  # what nobody could take is given up, and stored as far as it is decided
        await self.server.left(self.config.drain_s)
        log.info("broker drained", broker=self.server.me, left=len(left))
        return left


@asynccontextmanager
async def running_broker(
    member: MemberId, folder: Path, keyspace: KeySpace, wiring: Wiring, *, config: BrokerConfig | None = None
) -> AsyncIterator[RunningBroker]:
    """A broker which serves until the block is left."""
    config = config or BrokerConfig()
    config = msgspec.structs.replace(config, core=msgspec.structs.replace(config.core, root=config.root))
    broker = RunningBroker(config)
    async with AsyncExitStack() as stack:
        channels = Channels(wiring.channel)
        stack.push_async_callback(channels.close)
        tasks = Tasks(_on_task_failure)
        stack.push_async_callback(tasks.close)
        mirror = await stack.enter_async_context(
            await KeySpaceMirror.start(keyspace, f"{config.root}/", decoders(config.root), on_failure=broker.fail)
        )
        server = broker.server = BrokerServer(member, folder, keyspace, mirror, channels, tasks, config)
        stack.push_async_callback(server.close)
        service = Service()
        BrokerService(server).register(service)
        broker.wire = await Server.start(
            service, wiring.host, wiring.port, limits=wiring.limits, token=wiring.token, tls=wiring.server_tls
        )
        stack.push_async_callback(broker.wire.close, drain_s=0.5)
        await _announce(stack, broker, member, keyspace, mirror)
        yield broker


async def _announce(
    stack: AsyncExitStack, broker: RunningBroker, member: MemberId, keyspace: KeySpace, mirror: KeySpaceMirror
) -> None:
    """Be a member: from now on journals are assigned to it."""
    config, layout = broker.config, Layout(broker.config.root)
    broker.membership = await Membership.announce(
        keyspace,
        layout.member_key(member),
        BrokerSpec(endpoint=broker.address, limit=config.limit).encode(),
        lease_ms=config.lease_ms,
        on_lost=lambda reason: broker.fail(Unavailable(f"the lease is lost: {reason}")),
    )
    stack.push_async_callback(broker.membership.close)
    await mirror.wait_for_revision(broker.membership.revision)
    broker.server.start()
    broker.allocator = AllocatorDaemon.start(
        keyspace, mirror, config.root, member, JournalPolicy(layout, mirror.get), on_failure=broker.fail
    )
    stack.push_async_callback(broker.allocator.close)


def _on_task_failure(error: BaseException) -> None:
    log.error("background task failed", exc_info=error)
