"""An entry of an unknown kind, as a newer release sends it, stops a replica by name; the others serve."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.quorum.node.cluster import running_cluster

from penstock.kernel.ids import NodeId
from penstock.plumbing.wiring.wiring import Wiring
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.core.machines.builtin import Get, Put, encode_op
from penstock.quorum.links.peers import METHOD, PeerHello

pytestmark = pytest.mark.timeout(60)


async def test_an_unknown_entry_stops_the_replica_and_names_it(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, QuorumLog(list(cluster.addresses.values()), "main") as log:
        await log.append(encode_op(Put("k", b"1")))
        follower = next(name for name in cluster.nodes if name != cluster.leader())
        host = cluster.nodes[follower].host("main")
        channel = Wiring().channel(cluster.addresses[follower])
        async with channel:
            hello = msgspec.msgpack.encode(PeerHello("main", NodeId("of-the-future")))
            stream = await channel.open(METHOD, hello)
            stream.send_nowait(msgspec.msgpack.encode({"type": "AppendEntries", "entries": []}))
            async with asyncio.timeout(10):
                while not host.failed:  # noqa: ASYNC110  a state inside the part under test
                    await asyncio.sleep(0.01)
        assert "a message of of-the-future has a record of the unknown kind 'AppendEntries'" in host.failed
        await log.append(encode_op(Put("k", b"2")))
        assert (await log.read(encode_op(Get("k")))).result == b"2"
