"""A cluster in one process, for tests of the client and the runtime: real WALs, real sockets, no process to start."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from penstock.kernel.ids import MILLISECOND, NodeId
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.plumbing.wire.server import Server
from penstock.plumbing.wiring.wiring import Wiring
from penstock.quorum.core.config import NodeConfig, OperatorConfig
from penstock.quorum.node.node_server import NodeServer
from penstock.quorum.node.process import running_node
from penstock.quorum.operator.operator_server import OperatorServer
from penstock.quorum.operator.process import running_operator


class Cluster:
    """Nodes and an operator which can be stopped and started, each on its own port."""

    def __init__(self, folder: Path, config: NodeConfig) -> None:
        self.folder = folder
        self.config = config
        self.nodes: dict[str, NodeServer] = {}
        self.addresses: dict[str, str] = {}
        self.operator: OperatorServer
        self._stacks: dict[str, AsyncExitStack] = {}

    async def start_node(self, name: str) -> None:
        port = int(self.addresses[name].rpartition(":")[2]) if name in self.addresses else 0
        stack = self._stacks[name] = AsyncExitStack()
        node, server = await stack.enter_async_context(
            running_node(NodeId(name), self.folder / name, Wiring(port=port), config=self.config)
        )
        self.nodes[name], self.addresses[name] = node, server.address

    async def stop_node(self, name: str) -> None:
        await self._stacks.pop(name).aclose()
        del self.nodes[name]

    async def start_operator(self) -> Server:
        stack = self._stacks["operator"] = AsyncExitStack()
        keyspace = await stack.enter_async_context(await EmbeddedKeySpace.open(self.folder / "keyspace"))
        config = OperatorConfig(heartbeat_ns=50 * MILLISECOND, failure_ns=1_000 * MILLISECOND)
        self.operator, server = await stack.enter_async_context(
            running_operator(NodeId("operator"), keyspace, Wiring(), config=config)
        )
        for name, address in self.addresses.items():
            await self.operator.add_node(NodeId(name), address)
        return server

    def leader(self) -> str:
        """Who leads right now, by its own word."""
        return next(name for name, node in self.nodes.items() if node.host("main").node.leader is not None)

    async def close(self) -> None:
        for stack in reversed(list(self._stacks.values())):
            await stack.aclose()


@asynccontextmanager
async def running_cluster(
    folder: Path, nodes: int = 3, *, spares: int = 0, config: NodeConfig | None = None
) -> AsyncIterator[Cluster]:
    """A cluster with the shard `main` on its first nodes; n1, n2, ... are their names."""
    cluster = Cluster(folder, config or NodeConfig())
    try:
        names = [f"n{number}" for number in range(1, nodes + spares + 1)]
        for name in names:
            await cluster.start_node(name)
        await cluster.start_operator()
        await cluster.operator.create("main", [NodeId(name) for name in names[:nodes]])
        yield cluster
    finally:
        await cluster.close()
