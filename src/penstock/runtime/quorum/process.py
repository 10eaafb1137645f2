"""A node and an operator as something that runs: opened in order, closed in reverse, all they need in one place."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from penstock.base.ids import NodeId
from penstock.quorum.config import NodeConfig, OperatorConfig
from penstock.runtime.keyspace.port import KeySpace
from penstock.runtime.logs import get_logger
from penstock.runtime.quorum.node_server import NodeServer
from penstock.runtime.quorum.node_service import NodeService
from penstock.runtime.quorum.operator_server import OperatorServer
from penstock.runtime.quorum.operator_service import OperatorService
from penstock.runtime.quorum.peers import Channels
from penstock.runtime.tasks import Tasks
from penstock.runtime.wal import WalOptions
from penstock.runtime.wire.server import Server
from penstock.runtime.wire.service import Service
from penstock.runtime.wiring import Wiring

__all__ = ["running_node", "running_operator"]

log = get_logger()


@asynccontextmanager
async def running_node(
    node: NodeId,
    folder: Path,
    wiring: Wiring,
    *,
    config: NodeConfig | None = None,
    wal: WalOptions | None = None,
    machine: str = "map",
) -> AsyncIterator[tuple[NodeServer, Server]]:
    """A node which serves until the block is left."""
    async with AsyncExitStack() as stack:
        tasks, channels = await _background(stack, wiring)
        server = await NodeServer.open(node, folder, channels, tasks, config=config, wal=wal, machine=machine)
        stack.push_async_callback(server.close)
        service = Service()
        NodeService(server).register(service)
        yield server, await _listen(stack, service, wiring)


@asynccontextmanager
async def running_operator(
    me: NodeId, keyspace: KeySpace, wiring: Wiring, *, config: OperatorConfig | None = None
) -> AsyncIterator[tuple[OperatorServer, Server]]:
    """An operator which cares for every shard until the block is left."""
    async with AsyncExitStack() as stack:
        tasks, channels = await _background(stack, wiring)
        operator = OperatorServer(me, keyspace, channels, tasks, config)
        stack.callback(operator.close)
        await operator.start()
        service = Service()
        OperatorService(operator).register(service)
        yield operator, await _listen(stack, service, wiring)


async def _background(stack: AsyncExitStack, wiring: Wiring) -> tuple[Tasks, Channels]:
    channels = Channels(wiring.channel)
    stack.push_async_callback(channels.close)
    tasks = Tasks(_on_task_failure)
    stack.push_async_callback(tasks.close)
    return tasks, channels


async def _listen(stack: AsyncExitStack, service: Service, wiring: Wiring) -> Server:
    server = await Server.start(
        service, wiring.host, wiring.port, limits=wiring.limits, token=wiring.token, tls=wiring.server_tls
    )
    stack.push_async_callback(server.close, drain_s=0.5)
    return server


def _on_task_failure(error: BaseException) -> None:
    log.error("background task failed", exc_info=error)
