"""A running operator: its parts open in order and close in reverse."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from penstock.kernel.ids import NodeId
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.wire.server import Server
from penstock.plumbing.wire.service import Service
from penstock.plumbing.wiring.listening import listening
from penstock.plumbing.wiring.wiring import Wiring
from penstock.quorum.core.config import OperatorConfig
from penstock.quorum.node.process import in_background
from penstock.quorum.operator.operator_server import OperatorServer
from penstock.quorum.operator.operator_service import OperatorService

__all__ = ["running_operator"]


@asynccontextmanager
async def running_operator(
    me: NodeId, keyspace: KeySpace, wiring: Wiring, *, config: OperatorConfig | None = None
) -> AsyncIterator[tuple[OperatorServer, Server]]:
    """An operator which cares for every shard until the block is left."""
    async with AsyncExitStack() as stack:
        tasks, channels = await in_background(stack, wiring)
        operator = OperatorServer(me, wiring.ports, keyspace, channels, tasks, config)
        stack.callback(operator.close)
        await operator.start()
        service = Service()
        OperatorService(operator).register(service)
        yield operator, await listening(stack, service, wiring)
