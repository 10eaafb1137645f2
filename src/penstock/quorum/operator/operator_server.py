"""An operator process: cares for every shard in the KeySpace. Several may run; they cost each other time, never data.

quorum/nodes/<node>     where a node listens
quorum/shards/<shard>   a shard's metadata
"""

import asyncio

import msgspec

from penstock.kernel.errors import Compacted, NotFound, PenstockError, PreconditionFailed
from penstock.kernel.ids import NodeId, Revision
from penstock.keyspace.core.records import KeyValue
from penstock.keyspace.core.transaction import PutKey, is_absent
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.ports.ports import Ports
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wire.channels import Channels
from penstock.quorum.core.config import OperatorConfig
from penstock.quorum.core.operator import Elect, Reconfigure
from penstock.quorum.node.node_server import valid_name
from penstock.quorum.node.node_service import MemberQuery
from penstock.quorum.operator.shard_operator import SHARDS, ShardOperator, decode_metadata, encode_metadata
from penstock.quorum.records.member import Member
from penstock.quorum.records.messages import Change, ChangeOp
from penstock.quorum.records.metadata import Metadata

__all__ = ["NODES", "OperatorServer"]

NODES = "quorum/nodes/"
ROOT = "quorum/"
WATCH_RETRY_S = 0.5
log = get_logger()


class OperatorServer:
    """All shards of one operator."""

    def __init__(
        self,
        me: NodeId,
        ports: Ports,
        keyspace: KeySpace,
        channels: Channels,
        tasks: Tasks,
        config: OperatorConfig | None = None,
    ) -> None:
        self.me = me
        self._ports = ports
        self._keyspace = keyspace
        self._channels = channels
        self._tasks = tasks
        self._config = config or OperatorConfig()
        self.directory: dict[NodeId, str] = {}
        self.shards: dict[str, ShardOperator] = {}

    async def start(self) -> None:
        """Take care of all present and future shards."""
        revision = await self._read_all()
        self._tasks.start(self._watch(revision), "watch the KeySpace")

    def close(self) -> None:
        for shard in self.shards.values():
            shard.close()

    # What people ask for

    async def add_node(self, node: NodeId, address: str) -> None:
        """Remember where a node listens. Again with another address: it has moved."""
        valid_name(node, "node")
        await self._keyspace.transact((), [PutKey(NODES + node, address.encode())])
        self._learn({node: address})

    async def create(self, shard: str, nodes: list[NodeId]) -> Metadata:
        """A new shard on these nodes. Refused if there is one of that name."""
        valid_name(shard, "shard")
        if not nodes or len(set(nodes)) != len(nodes):
            raise PreconditionFailed("a shard needs nodes, each of them once")
        ensemble = tuple([await self._member(shard, node) for node in nodes])
        metadata = Metadata(ensemble)
        key = SHARDS + shard
        outcome = await self._keyspace.transact([is_absent(key)], [PutKey(key, encode_metadata(metadata))])
        if not outcome.succeeded:
            raise PreconditionFailed(f"there is a shard {shard!r} already", next_step="penstock quorum shards")
        self._care_for(shard)
        return metadata

    async def elect(self, shard: str, prefer: NodeId | None, *, aborts: bool = False) -> Metadata:
        return await self._shard(shard).ask(Elect(prefer, aborts))

    async def reconfigure(self, shard: str, op: ChangeOp, old: NodeId | None, new: NodeId | None) -> Metadata:
        """Swap, expand or contract. Swapping a node for itself brings it back after it lost its data."""
        cared = self._shard(shard)
        metadata = cared.operator.metadata
        members = {member.node: member for member in metadata.ensemble} if metadata is not None else {}
        if old is not None and old not in members:
            raise PreconditionFailed(f"{old} is no member of {shard}: {', '.join(members)} are")
        is_same = old is not None and old == new
        joining = await self._member(shard, new, wiped=is_same) if new is not None else None
        leaving = members[old] if old is not None else None
        return await cared.ask(Reconfigure(Change(op, leaving, joining)))

    def metadata(self) -> dict[str, tuple[Metadata | None, str]]:
        """Every shard: its metadata, and what this operator is doing about it."""
        return {name: (each.operator.metadata, each.operator.activity.value) for name, each in self.shards.items()}

    def _shard(self, shard: str) -> ShardOperator:
        if shard not in self.shards:
            raise NotFound(f"there is no shard {shard!r}", next_step="penstock quorum shards")
        return self.shards[shard]

    async def _member(self, shard: str, node: NodeId, *, wiped: bool = False) -> Member:
        if node not in self.directory:
            known = ", ".join(self.directory) or "none"
            raise NotFound(f"no node is called {node}; known: {known}", next_step="penstock quorum status")
        body = msgspec.msgpack.encode(MemberQuery(shard, wiped))
        answer = await self._channels.get(self.directory[node]).call("quorum.member", body)
        return msgspec.msgpack.decode(answer.body, type=Member)

    # The KeySpace

    async def _read_all(self) -> Revision:
        snapshot = await self._keyspace.range(ROOT)
        for entry in snapshot.entries:
            self._on_entry(entry)
        return snapshot.revision

    async def _watch(self, revision: Revision) -> None:
        """Follow the KeySpace for ever; changes missed while it is away are read again."""
        while True:
            try:
                async with self._keyspace.watch(ROOT, Revision(revision + 1)) as watch:
                    async for batch in watch:
                        for change in batch.changes:
                            if change.now is not None:
                                self._on_entry(change.now)
                        revision = batch.revision
            except Compacted:
                revision = await self._read_all()
            except PenstockError as error:
                log.warning("KeySpace not reached", error=str(error))
                await asyncio.sleep(WATCH_RETRY_S)

    def _on_entry(self, entry: KeyValue) -> None:
        if entry.key.startswith(NODES):
            self._learn({NodeId(entry.key.removeprefix(NODES)): entry.value.decode()})
        elif entry.key.startswith(SHARDS):
            cared = self._care_for(entry.key.removeprefix(SHARDS))
            cared.metadata_changed(decode_metadata(entry.value), entry.mod_revision)

    def _care_for(self, shard: str) -> ShardOperator:
        if shard not in self.shards:
            cared = ShardOperator(
                self.me,
                shard,
                self._ports,
                self._keyspace,
                self._channels,
                self._tasks,
                self._config,
                self.directory,
            )
            self.shards[shard] = cared
            cared.start()
        return self.shards[shard]

    def _learn(self, addresses: dict[NodeId, str]) -> None:
        self.directory = {**self.directory, **addresses}
        for shard in self.shards.values():
            shard.peers.learn(self.directory)
