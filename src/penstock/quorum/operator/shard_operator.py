"""One operator's care for one shard: the operator's core on the KeySpace and the wire."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.effects import Effect, Received, Reply, Requested
from penstock.kernel.errors import InternalError, PenstockError, ShuttingDown
from penstock.kernel.ids import Lsn, NodeId, RequestId, Revision
from penstock.keyspace.core.transaction import PutKey, is_at
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.host.loop import Done, MachineLoop
from penstock.plumbing.ports.ports import Ports
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wire.channels import Channels
from penstock.quorum.core.config import OperatorConfig
from penstock.quorum.core.operator import Operator
from penstock.quorum.links.peers import Peers
from penstock.quorum.records.metadata import (
    Metadata,
    MetadataRead,
    MetadataWritten,
    PeerLost,
    ReadMetadata,
    WriteMetadata,
)

__all__ = ["SHARDS", "ShardOperator", "decode_metadata", "encode_metadata"]

SHARDS = "quorum/shards/"
_METADATA = Codec[Metadata](Metadata)
decode_metadata = _METADATA.decode
log = get_logger()


def encode_metadata(metadata: Metadata) -> bytes:
    return _METADATA.encode(metadata)


class NoStorage:
    """An operator keeps nothing of its own: everything it must remember is in the KeySpace."""

    def append(self, first: Lsn, records: Sequence[Any], done: Done) -> None:
        raise InternalError("an operator has no log")

    def truncate(self, lsn: Lsn, done: Done) -> None:
        raise InternalError("an operator has no log")

    def save_state(self, state: Any, done: Done) -> None:
        raise InternalError("an operator has no state of its own")

    def trim(self, lsn: Lsn) -> None:
        raise InternalError("an operator has no log")


class ShardOperator:
    """Elects, watches and reconfigures one shard, together with other operators."""

    def __init__(
        self,
        me: NodeId,
        shard: str,
        ports: Ports,
        keyspace: KeySpace,
        channels: Channels,
        tasks: Tasks,
        config: OperatorConfig,
        directory: dict[NodeId, str],
    ) -> None:
        self.shard = shard
        self.operator = Operator(config)
        self._key = SHARDS + shard
        self._keyspace = keyspace
        self._tasks = tasks
        self.peers = Peers(me, shard, channels, tasks, self._on_messages, ports.chance.generator())
        self.peers.shares_directory = True
        self.peers.on_lost = self._on_peer_lost
        self.peers.learn(directory)
        self._loop = MachineLoop(self.operator, NoStorage(), self, ports.clock.monotonic_ns)
        self._requests = 0
        self._asked: dict[RequestId, asyncio.Future[Metadata]] = {}

    def start(self) -> None:
        self._loop.run(self.operator.begin(self._loop.now))

    async def ask(self, body: Any) -> Metadata:
        """Have an election held or the ensemble changed; returns the metadata then."""
        self._requests += 1
        request = RequestId(self._requests)
        future: asyncio.Future[Metadata] = asyncio.get_running_loop().create_future()
        self._asked[request] = future
        try:
            self._loop.post(Requested(request, body))
            return await future
        finally:
            self._asked.pop(request, None)

    def metadata_changed(self, metadata: Metadata, revision: Revision) -> None:
        """The watch saw it before we asked."""
        self._loop.post(MetadataRead(metadata, revision))

    def close(self) -> None:
        self._loop.stop("the process is ending")
        for future in self._asked.values():
            if not future.done():
                future.set_exception(ShuttingDown("the operator is ending"))

    # World

    def send(self, to: NodeId, message: Any) -> None:
        self.peers.send(to, message)

    def perform(self, effect: Effect) -> None:
        match effect:
            case ReadMetadata():
                self._tasks.start(self._read(), f"read metadata of {self.shard}")
            case WriteMetadata():
                self._tasks.start(self._write(effect), f"write metadata of {self.shard}")
            case Reply(request, result):
                self._settle(request, result)
            case _:
                raise InternalError(f"an operator's shell does not know {type(effect).__name__}")

    def stopped(self, reason: str) -> None:
        log.info("operator stopped", shard=self.shard, reason=reason)

    def _on_messages(self, sender: NodeId, messages: list[Any]) -> None:
        for message in messages:
            self._loop.post(Received(sender, message))

    def _on_peer_lost(self, node: NodeId, is_refused: bool) -> None:
        self._loop.post(PeerLost(node, is_refused))

    def _settle(self, request: RequestId, result: Any) -> None:
        future = self._asked.get(request)
        if future is None or future.done():
            return
        if isinstance(result, PenstockError):
            future.set_exception(result)
        else:
            future.set_result(result)

    async def _read(self) -> None:
        try:
            found = await self._keyspace.get(self._key)
        except PenstockError as error:
            log.warning("metadata not read", shard=self.shard, error=str(error))
            return  # the operator asks again at its next tick
        if found is not None:
            self._loop.post(MetadataRead(decode_metadata(found.value), found.mod_revision))

    async def _write(self, effect: WriteMetadata) -> None:
        value = encode_metadata(effect.metadata)
        try:
            outcome = await self._keyspace.transact([is_at(self._key, effect.revision)], [PutKey(self._key, value)])
        except PenstockError as error:
            # It may have been written: to this operator it was not. Reading again shows the present metadata, and an
            # epoch it cannot claim as its own is taken over by a new one (P9).
            log.warning("metadata not written", shard=self.shard, error=str(error))
            self._loop.post(MetadataWritten(False, Revision(0)))
            return
        if outcome.succeeded:
            log.info("metadata written", shard=self.shard, **_summary(effect.metadata))
        self._loop.post(MetadataWritten(outcome.succeeded, outcome.revision))


def _summary(metadata: Metadata) -> dict[str, Any]:
    return {
        "epoch": metadata.epoch,
        "status": metadata.status.value,
        "leader": str(metadata.leader) if metadata.leader is not None else None,
        "change": msgspec.to_builtins(metadata.reconfiguration),
    }
