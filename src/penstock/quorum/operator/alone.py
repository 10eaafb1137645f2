"""A quorum log of one node, inside this process: one copy of the data, and nothing else to start.

For one machine and for trying things out. The folder is what a node's would be, the KeySpace an operator's; more nodes
can join it later by their own processes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from penstock.kernel.ids import NodeId
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.wal import WalOptions
from penstock.plumbing.wiring.wiring import Wiring
from penstock.quorum.core.config import SERVED
from penstock.quorum.node.process import running_node
from penstock.quorum.operator.process import running_operator

__all__ = ["QuorumAlone", "quorum_alone"]

NODE: Final = NodeId("n1")
# A subscriber which was away for long begins with a checkpoint of its own, so much is kept for it.
CONFIG: Final = msgspec.structs.replace(SERVED, retain_entries=50_000)


class QuorumAlone(msgspec.Struct, frozen=True):
    """Where the two of them listen."""

    node: str
    operator: str


@asynccontextmanager
async def quorum_alone(
    folder: Path, keyspace: KeySpace, shard: str, *, wal: WalOptions | None = None, wiring: Wiring | None = None
) -> AsyncIterator[QuorumAlone]:
    """Run a node that leads the shard, and its operator; create the shard if it does not exist."""
    wiring = wiring or Wiring()
    async with (
        running_node(NODE, folder / NODE, wiring, config=CONFIG, wal=wal, machine="log") as (_, server),
        running_operator(NodeId("operator"), keyspace, wiring) as (operator, listening),
    ):
        address = wiring.announced(server.address)
        await operator.add_node(NODE, address)
        if shard not in operator.shards:
            await operator.create(shard, [NODE])
        yield QuorumAlone(address, wiring.announced(listening.address))
