"""The site of the quorum log's world: nodes with their WAL, operators, and clients of one shard, all as we ship them.

Nodes and operators are servers: faults meet them. A node whose replica cannot continue ends, and its supervisor starts
it again.
"""

import asyncio
from random import Random
from typing import Final

import msgspec

from penstock.kernel.errors import PenstockError
from penstock.kernel.ids import NodeId
from penstock.plumbing.wire.limits import WireLimits
from penstock.plumbing.wiring.wiring import Wiring
from penstock.quorum.client.operator import Operators
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.core.machines.builtin import AppendTo, MapOp
from penstock.quorum.node.node_server import NodeServer
from penstock.quorum.node.process import running_node
from penstock.quorum.operator.operator_server import OperatorServer
from penstock.quorum.operator.process import running_operator
from penstock.quorum.operator.shard_operator import SHARDS, decode_metadata
from penstock.quorum.records.entry import Txn
from penstock.quorum.records.metadata import Status
from penstock_lab.world.ports.keyspace import KeySpaceClient
from penstock_lab.world.process import Life
from penstock_lab.world.quorum.clients import quorum_client
from penstock_lab.world.quorum.ledger import QuorumLedger, SentAppend, ShownTxn
from penstock_lab.world.quorum.settings import QuorumSettings
from penstock_lab.world.scene import Scene
from penstock_lab.world.world import World

__all__ = ["PORT", "SHARD", "QuorumSite"]

PORT: Final = 7301
SHARD: Final = "main"
LOOK_S: Final = 0.25
LOOK_NS: Final = 10_000_000
_op_of = msgspec.msgpack.Decoder(MapOp).decode


class QuorumSite:
    """A cluster of nodes and operators, its clients, and their ledger."""

    def __init__(self, world: World, settings: QuorumSettings | None = None) -> None:
        self.world = world
        self.scene = Scene(world)
        self.settings = settings or QuorumSettings.draw(world.random("quorum"))
        self.ledger = QuorumLedger()
        self.is_over = False  # clients begin nothing more
        self.unread = 0  # reads that failed
        self.values: dict[str, bytes] = {}  # at the end
        self.nodes: dict[str, NodeServer] = {}  # of the last life of each
        self.operators: dict[str, OperatorServer] = {}
        count = self.settings.nodes
        self.names = [f"n{number}" for number in range(1, count + self.settings.spares + 1)]
        self.members = self.names[:count]  # at first
        for name in self.names:
            self.scene.servers.append(name)
            self.scene.add(name, self._node)
        for number in range(1, self.settings.operators + 1):
            self.scene.servers.append(f"o{number}")
            self.scene.add(f"o{number}", self._operator)
        self.scene.add("admin", self._admin)
        self.scene.run(0.3)
        self._epoch = 0
        self._look_at_metadata()
        self._create()
        for number in range(1, self.settings.clients + 1):
            self.scene.clients.append(f"c{number}")
            self.scene.add(f"c{number}", quorum_client(self, number))

    # Programs

    def _wiring(self, life: Life) -> Wiring:
        return Wiring(host=life.name, port=PORT, ports=life.ports)

    async def _node(self, life: Life) -> None:
        settings = self.settings
        async with running_node(
            NodeId(life.name), life.folder, self._wiring(life), config=settings.node, wal=settings.wal
        ) as (server, _):
            self.nodes[life.name] = server
            while not server.broken and not any(host.failed for host in server.hosts):  # noqa: ASYNC110  as a person looks
                await asyncio.sleep(LOOK_S)
            for host in server.hosts:
                life.world.tell(life.name, f"process  {host.failed}")
            for shard, error in server.broken.items():
                life.world.tell(life.name, f"process  {shard}: {error}")

    async def _operator(self, life: Life) -> None:
        keyspace = KeySpaceClient(self.scene.keyspace, life)
        async with running_operator(NodeId(life.name), keyspace, self._wiring(life), config=self.settings.operator) as (
            operator,
            _,
        ):
            self.operators[life.name] = operator
            await life.loop.create_future()

    async def _admin(self, life: Life) -> None:
        await life.loop.create_future()

    # For clients

    @property
    def addresses(self) -> list[str]:
        return [f"{name}:{PORT}" for name in self.names]

    def client(self, life: Life, *, client_id: str | None = None, limits: WireLimits | None = None) -> QuorumLog:
        addresses = list(self.addresses)
        life.rng.shuffle(addresses)
        window = self.settings.window_bytes
        return QuorumLog(addresses, SHARD, client_id=client_id, window_bytes=window, limits=limits, ports=life.ports)

    def asking(self, life: Life) -> Operators:
        return Operators([f"{name}:{PORT}" for name in self.scene.servers if name.startswith("o")], ports=life.ports)

    @property
    def is_written(self) -> bool:
        """Return whether clients write no more."""
        return self.is_over or len(self.ledger.sent) >= self.settings.records

    def record(self, rng: Random, *, is_sync: bool = True) -> SentAppend:
        return self.ledger.record(rng.choice(self.settings.keys), rng.randint(*self.settings.sizes), is_sync=is_sync)

    def shown(self, offset: int, txn: Txn) -> ShownTxn | None:
        op = _op_of(txn.ops)
        return ShownTxn(offset, txn.client, txn.seq, op.key, op.value) if isinstance(op, AppendTo) else None

    def check_bounds(self, life: Life, log: QuorumLog) -> None:
        """E8: the bytes that a client has sent without an answer are bounded by its window."""
        appends = log._appends
        most = self.settings.window_bytes + 2_000  # one transaction always fits
        if appends is not None and appends._bytes > most:
            self.world.fail(f"E8: {life.name} has {appends._bytes} bytes without an answer, and its window is {most}")

    # For the judge, and for schedules

    @property
    def admin(self) -> Life:
        life = self.scene.life("admin")
        assert life is not None
        return life

    def leader(self) -> str | None:
        """Return the leader that the metadata name, in a steady state."""
        for operator in self.operators.values():
            shard = operator.shards.get(SHARD)
            metadata = shard.operator.metadata if shard is not None else None
            if metadata is not None and metadata.status is Status.STEADY_STATE and metadata.leader is not None:
                return metadata.leader.node
        return None

    def epoch(self) -> int:
        """Return the epoch of the metadata in the KeySpace."""
        entry = self.scene.keyspace.store.get(SHARDS + SHARD)
        return decode_metadata(entry.value).epoch if entry is not None else 0

    def _look_at_metadata(self) -> None:
        """I27: the epoch of the metadata never falls."""
        now = self.epoch()
        if now < self._epoch:
            self.world.fail(f"I27: the epoch of the metadata fell from {self._epoch} to {now}")
        self._epoch = now
        self.world.after(LOOK_NS, self._look_at_metadata)

    def follower(self) -> str:
        leader = self.leader()
        return next(name for name in self.members if name != leader)

    def _create(self) -> None:
        async def create() -> bool:
            async with self.asking(self.admin) as operators:
                for name in self.names:
                    await operators.add_node(name, f"{name}:{PORT}")
                for _ in range(20):
                    try:
                        await operators.create(SHARD, self.members)
                        return True
                    except PenstockError:
                        await asyncio.sleep(0.2)
            return False

        if not self.scene.do(self.admin, create(), 15):
            self.world.fail("E4: the shard could not be created")
