"""The KeySpace on our own log keeps the port's law, on three real nodes."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from itertools import count

import pytest
from tests.keyspace.shell.behaviours import KeySpaceBehaviours
from tests.quorum.node.cluster import Cluster, running_cluster

from penstock.kernel.ids import NodeId
from penstock.quorum.core.config import SERVED
from penstock.quorum.keyspace.store import QuorumKeySpace

_numbers = count()


class QuorumHarness:
    """One prefix of a KeySpace on three nodes."""

    lease_ms = 1_000

    def __init__(self, cluster: Cluster, loop: asyncio.AbstractEventLoop, opened: AsyncExitStack) -> None:
        self.cluster = cluster
        self.loop = loop
        self.prefix = f"test-{next(_numbers)}/"
        self._opened = opened
        self._clients = 0

    async def open(self) -> QuorumKeySpace:
        """Return a client, whose watches begin at another node each time."""
        addresses = list(self.cluster.addresses.values())
        first = self._clients % len(addresses)
        self._clients += 1
        keyspace = await QuorumKeySpace.open([*addresses[first:], *addresses[:first]])
        return await self._opened.enter_async_context(keyspace)

    async def let_time_pass(self, ms: int) -> None:
        """The log has its own clock: the test waits for what happens when it is time."""

    async def restart(self) -> None:
        """Stop all nodes, and start them again on their folders."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._restart(), self.loop))

    async def _restart(self) -> None:
        for name in list(self.cluster.nodes):
            await self.cluster.stop_node(name)
        for name in self.cluster.addresses:
            await self.cluster.start_node(name)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, asyncio.AbstractEventLoop]]:
    """Three nodes in a loop of their own, which outlives the tests' loops."""
    folder = tmp_path_factory.mktemp("nodes")
    ready: list[tuple[Cluster, asyncio.AbstractEventLoop]] = []
    is_ready, is_over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with running_cluster(folder, config=SERVED) as cluster:
            await cluster.operator.create("keyspace", [NodeId(name) for name in cluster.nodes])
            ready.append((cluster, asyncio.get_running_loop()))
            is_ready.set()
            await is_over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert is_ready.wait(20)
    yield ready[0]
    ready[0][1].call_soon_threadsafe(is_over.set)
    thread.join(20)


@pytest.fixture
async def harness(nodes: tuple[Cluster, asyncio.AbstractEventLoop]) -> AsyncIterator[QuorumHarness]:
    async with AsyncExitStack() as opened:
        yield QuorumHarness(*nodes, opened)


class TestBehaviours(KeySpaceBehaviours):
    """See behaviours.py."""
