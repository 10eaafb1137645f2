"""A broker as something that runs: opened in order, closed in reverse, all it needs in one place.

A broker that is asked to end drains first: the allocator gives its journals to others, and it stores its remaining
content. So nothing is lost when a whole cluster is restarted one by one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from penstock.journals.broker.broker_server import BrokerServer
from penstock.journals.broker.broker_service import BrokerService
from penstock.journals.broker.config import BrokerConfig
from penstock.journals.broker.status.health import add_broker_checks
from penstock.journals.core.allocation import BrokerSpec, JournalPolicy
from penstock.journals.records.route import decoders
from penstock.keyspace.core.allocator.layout import Layout, MemberId
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.neighbours import Neighbourhood
from penstock.keyspace.shell.port import KeySpace
from penstock.keyspace.shell.running_member import RunningMember
from penstock.keyspace.shell.seen import SeenKeySpace
from penstock.plumbing.ports.ports import Clocks
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wire.channels import Channels
from penstock.plumbing.wire.limits import WireLimits
from penstock.plumbing.wire.service import Service
from penstock.plumbing.wiring.wiring import Wiring

__all__ = ["BROKER_LIMITS", "RunningBroker", "running_broker"]

MIB = 1 << 20
STORING: Final = 1 / 6  # of the time to drain: at least this part is left for storing
# A stream per journal and peer on one connection; a peer which is paused is noticed within seconds.
BROKER_LIMITS = WireLimits(
    frame_bytes_max=8 * MIB,
    stream_window_bytes=8 * MIB,
    streams_max=65_536,
    write_bytes_max=8 * MIB,
    keepalive_ms=2_000,
    pong_ms=3_000,
)
log = get_logger()


class RunningBroker(RunningMember):
    """A broker, and its connections."""

    def __init__(self, config: BrokerConfig, clock: Clocks) -> None:
        super().__init__()
        self.config = config
        self._clock = clock
        self.server: BrokerServer

    @property
    def is_fit(self) -> bool:
        return not self.server.full_disk.is_full_for(self.config.full_ms)

    async def drain(self) -> list[str]:
        """Have others take over every journal, and store the rest; return the journals that no other broker could take.

        All of it within `drain_s`, and a little more for storing if the takeover used all of that.
        """
        drain_s, began_ns = self.config.drain_s, self._clock.monotonic_ns()
        log.info("broker drains", broker=self.server.me, journals=len(self.server.hosts))
        await self._be_relieved(drain_s)
        left = self.allocator.assigned_items
        self.server.exit()
        # journals that no other broker could take are given up, and stored as far as they are decided
        await self.membership.close()
        await self.server.left(max(drain_s - (self._clock.monotonic_ns() - began_ns) / 1e9, drain_s * STORING))
        log.info("broker drained", broker=self.server.me, left=len(left))
        return left

    async def _be_relieved(self, wait_s: float) -> None:
        """Wait until nothing is assigned to this broker, or no other broker could take it, or the time is over."""
        spec = BrokerSpec(endpoint=self.address, limit=self.config.limit, is_exiting=True)
        draining = asyncio.create_task(
            self.allocator.drain(self.membership, spec.encode(), wait_s=wait_s), name="drains"
        )
        useless = asyncio.create_task(self.server.cannot_be_relieved(), name="cannot be relieved")
        try:
            await asyncio.wait({draining, useless}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (draining, useless):
                task.cancel()
            await asyncio.gather(draining, useless, return_exceptions=True)


@asynccontextmanager
async def running_broker(
    member: MemberId, folder: Path, keyspace: KeySpace, wiring: Wiring, *, config: BrokerConfig | None = None
) -> AsyncIterator[RunningBroker]:
    """A broker which serves until the block is left."""
    config = config or BrokerConfig()
    config = msgspec.structs.replace(config, core=msgspec.structs.replace(config.core, root=config.root))
    broker = RunningBroker(config, wiring.ports.clock)
    async with AsyncExitStack() as stack:
        channels = Channels(wiring.channel)
        stack.push_async_callback(channels.close)
        tasks = Tasks(_on_task_failure)
        stack.push_async_callback(tasks.close)
        seen = await SeenKeySpace.compare(folder, wiring.ports.disk, keyspace)
        stack.push_async_callback(seen.close)
        mirror = await stack.enter_async_context(
            await KeySpaceMirror.start(keyspace, f"{config.root}/", decoders(config.root), on_failure=broker.fail)
        )
        seen.start(mirror)
        server = broker.server = BrokerServer(
            member, folder, wiring.ports, keyspace, mirror, channels, tasks, config, on_failure=broker.fail
        )
        stack.push_async_callback(server.close)
        service = Service()
        BrokerService(server).register(service)
        await broker.listen(stack, service, wiring)
        layout, spec = Layout(config.root), BrokerSpec(endpoint=broker.address, limit=config.limit)
        key = layout.member_key(member)
        await broker.announce(stack, keyspace, mirror, key, spec.encode(), wiring.ports.clock, lease_ms=config.lease_ms)
        server.start()
        stack.callback(add_broker_checks(wiring.health, server))
        broker.allocate(stack, keyspace, mirror, layout, member, JournalPolicy(layout, mirror.get))
        if config.silent_ms:
            neighbours = Neighbourhood(
                keyspace,
                mirror,
                layout,
                member,
                broker.membership,
                lambda entry: BrokerSpec.decode(entry.stored.value).endpoint,
                channels.get,
                tasks,
                silent_s=config.silent_ms / 1_000,
                work=lambda: server.work,
            )
            stack.callback(neighbours.close)
            neighbours.start()
        yield broker


def _on_task_failure(error: BaseException) -> None:
    log.error("background task failed", exc_info=error)
