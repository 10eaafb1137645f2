"""A quorum log of one node, inside this process: one copy of the data, and nothing else to start.

For one machine and for trying things out. The folder is what a node's and an operator's would be; more nodes can join
it later by their own processes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from penstock.base.ids import NodeId
from penstock.quorum.config import SERVED
from penstock.runtime.keyspace import open_keyspace
from penstock.runtime.quorum.process import Wiring, running_node, running_operator
from penstock.runtime.wal import WalOptions

__all__ = ["quorum_alone"]

NODE: Final = NodeId("n1")
# A subscriber which was away for long begins with a checkpoint of its own, so much is kept for it.
CONFIG: Final = msgspec.structs.replace(SERVED, retain_entries=50_000)


@asynccontextmanager
async def quorum_alone(folder: Path, shard: str, *, wal: WalOptions | None = None) -> AsyncIterator[str]:
    """The address of a node which leads the shard; both are made in the folder if they are not there."""
    keyspace = (folder / "keyspace").absolute().as_uri().replace("file:", "embedded:", 1)
    async with (
        running_node(NODE, folder / NODE, Wiring(), config=CONFIG, wal=wal, machine="log") as (_, server),
        await open_keyspace(keyspace) as store,
        running_operator(NodeId("operator"), store, Wiring()) as (operator, _),
    ):
        await operator.add_node(NODE, server.address)
        if shard not in operator.shards:
            await operator.create(shard, [NODE])
        yield server.address
