"""A consumer process: a member of its group, which runs the shards the allocator assigns to it.

A process that is asked to end drains first: others take its shards over, and it finishes the transactions that it has
begun.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from penstock.consumers.client.definition import ConsumerSpec, decoders, root_of
from penstock.consumers.client.service import ConsumerService
from penstock.consumers.stores.application import Application
from penstock.consumers.worker.allocation import ShardPolicy
from penstock.consumers.worker.consumer_server import ConsumerServer
from penstock.journals.client.journal import Journals
from penstock.keyspace.core.allocator.layout import Layout, MemberId
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.port import KeySpace
from penstock.keyspace.shell.running_member import RunningMember
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wire.service import Service
from penstock.plumbing.wiring.wiring import Wiring

__all__ = ["ConsumerConfig", "RunningConsumer", "running_consumer"]

log = get_logger()


class ConsumerConfig(msgspec.Struct, frozen=True):
    """The settings of a consumer process."""

    group: str
    lease_ms: int = 10_000  # a process which is silent for so long has left
    limit: int = 1_000  # shards it takes at most
    drain_s: float = 30.0  # how long a leaving process waits to be relieved
    folder: Path | None = None  # of stores with recovery logs


class RunningConsumer(RunningMember):
    """A consumer, and its connections."""

    def __init__(self, config: ConsumerConfig) -> None:
        super().__init__()
        self.config = config
        self.server: ConsumerServer

    async def drain(self) -> list[str]:
        """Have others take over every shard; return the shards that no other process could take. Without others,
        nothing is waited for.
        """
        if not self.server.has_others:
            return self.allocator.assigned_items
        spec = ConsumerSpec(endpoint=self.address, limit=self.config.limit, is_exiting=True)
        left = await self.allocator.drain(self.membership, spec.encode(), wait_s=self.config.drain_s)
        log.info("consumer drained", consumer=str(self.server.me), left=len(left))
        return left


@asynccontextmanager
async def running_consumer(
    member: MemberId,
    application: Application[Any],
    journals: Journals,
    keyspace: KeySpace,
    config: ConsumerConfig,
    wiring: Wiring | None = None,
) -> AsyncIterator[RunningConsumer]:
    """A consumer which runs until the block is left."""
    root, wiring = root_of(config.group), wiring or Wiring()
    layout = Layout(root)
    consumer = RunningConsumer(config)
    async with AsyncExitStack() as stack:
        mirror = await stack.enter_async_context(
            await KeySpaceMirror.start(keyspace, f"{root}/", decoders(root), on_failure=consumer.fail)
        )
        server = ConsumerServer(member, application, journals, keyspace, mirror, layout, config.folder)
        consumer.server = server
        service = Service()
        ConsumerService(server).register(service)
        await consumer.listen(stack, service, wiring)
        spec = ConsumerSpec(endpoint=consumer.address, limit=config.limit)
        key = layout.member_key(member)
        await consumer.announce(
            stack, keyspace, mirror, key, spec.encode(), wiring.ports.clock, lease_ms=config.lease_ms
        )
        stack.push_async_callback(server.close)
        server.start(consumer.membership)
        consumer.allocate(stack, keyspace, mirror, layout, member, ShardPolicy(layout))
        yield consumer
