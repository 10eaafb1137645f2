"""Shipped nodes and an operator of the quorum log, as the queue of a lake's world."""

import asyncio
from typing import Final

from penstock.kernel.errors import PenstockError
from penstock.kernel.ids import NodeId
from penstock.plumbing.wiring.wiring import Wiring
from penstock.quorum.client.operator import Operators
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.node.process import running_node
from penstock.quorum.operator.process import running_operator
from penstock_lab.world.ports.keyspace import KeySpaceClient
from penstock_lab.world.process import Life
from penstock_lab.world.scene import Scene

__all__ = ["QueueNodes"]

PORT: Final = 7301
SHARD: Final = "main"
LOOK_S: Final = 0.25


class QueueNodes:
    """One shard on some nodes, with the defaults that users get."""

    def __init__(self, scene: Scene, count: int) -> None:
        self._scene = scene
        self._names = [f"n{number}" for number in range(1, count + 1)]
        for name in self._names:
            scene.servers.append(name)
            scene.add(name, self._node)
        scene.servers.append("o1")
        scene.add("o1", self._operator)

    @property
    def addresses(self) -> list[str]:
        return [f"{name}:{PORT}" for name in self._names]

    def client(self, life: Life) -> QuorumLog:
        return QuorumLog(self.addresses, SHARD, ports=life.ports)

    async def create(self, life: Life) -> bool:
        """Create the shard."""
        async with Operators([f"o1:{PORT}"], ports=life.ports) as operators:
            for name in self._names:
                await operators.add_node(name, f"{name}:{PORT}")
            for _ in range(20):
                try:
                    await operators.create(SHARD, self._names)
                    return True
                except PenstockError:
                    await asyncio.sleep(0.2)
        return False

    def _wiring(self, life: Life) -> Wiring:
        return Wiring(host=life.name, port=PORT, ports=life.ports)

    async def _node(self, life: Life) -> None:
        async with running_node(NodeId(life.name), life.folder, self._wiring(life)) as (server, _):
            while not server.broken and not any(host.failed for host in server.hosts):  # noqa: ASYNC110  as a person looks
                await asyncio.sleep(LOOK_S)

    async def _operator(self, life: Life) -> None:
        keyspace = KeySpaceClient(self._scene.keyspace, life)
        async with running_operator(NodeId(life.name), keyspace, self._wiring(life)):
            await life.loop.create_future()
