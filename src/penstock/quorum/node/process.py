"""A running node: its parts open in order and close in reverse."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from penstock.kernel.ids import NodeId
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wal import WalOptions
from penstock.plumbing.wire.channels import Channels
from penstock.plumbing.wire.server import Server
from penstock.plumbing.wire.service import Service
from penstock.plumbing.wiring.listening import listening
from penstock.plumbing.wiring.wiring import Wiring
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.node.health import add_node_checks
from penstock.quorum.node.node_server import NodeServer
from penstock.quorum.node.node_service import NodeService

__all__ = ["in_background", "running_node"]

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
        tasks, channels = await in_background(stack, wiring)
        server = await NodeServer.open(
            node, folder, wiring.ports, channels, tasks, config=config, wal=wal, machine=machine
        )
        stack.push_async_callback(server.close)
        service = Service()
        NodeService(server).register(service)
        listens = await listening(stack, service, wiring)
        stack.callback(add_node_checks(wiring.health, server))
        stack.push_async_callback(server.hand_over)
        yield server, listens


async def in_background(stack: AsyncExitStack, wiring: Wiring) -> tuple[Tasks, Channels]:
    """Return the tasks and the channels of a process; the stack closes them."""
    channels = Channels(wiring.channel)
    stack.push_async_callback(channels.close)
    tasks = Tasks(_on_task_failure)
    stack.push_async_callback(tasks.close)
    return tasks, channels


def _on_task_failure(error: BaseException) -> None:
    log.error("background task failed", exc_info=error)
