"""A client of the operators: shards made, elections held, ensembles changed."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.errors import Indeterminate, InvalidArgument, PenstockError, Unavailable
from penstock.kernel.ids import NodeId
from penstock.plumbing.ports.ports import Ports
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wire.tls import Tls
from penstock.quorum.records.messages import ChangeOp
from penstock.quorum.records.metadata import Metadata
from penstock.quorum.records.operator_calls import AddNode, Create, ElectLeader, OperatorStatus, Reconfiguration

__all__ = ["Operators"]

_METADATA = Codec[Metadata](Metadata)
_STATUS = Codec[OperatorStatus](OperatorStatus)
_encode = msgspec.msgpack.Encoder().encode
RETRY_S = 0.05


class Operators:
    """Any of several operators: they are equal, and the first that answers will do."""

    def __init__(
        self, addresses: Sequence[str], *, token: str | None = None, tls: Tls | None = None, ports: Ports | None = None
    ) -> None:
        if not addresses:
            raise InvalidArgument("give the address of at least one operator, like 127.0.0.1:7100")
        self._channels = [Channel(address, token=token, tls=tls, ports=ports) for address in addresses]

    async def __aenter__(self) -> "Operators":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(channel.close() for channel in self._channels))

    async def status(self) -> OperatorStatus:
        return _STATUS.decode(await self._call("operator.status", None, 2.0))

    async def add_node(self, node: str, address: str) -> None:
        await self._call("operator.add-node", AddNode(NodeId(node), address), 5.0)

    async def create(self, shard: str, nodes: Sequence[str]) -> Metadata:
        body = Create(shard, [NodeId(node) for node in nodes])
        return _METADATA.decode(await self._call("operator.create", body, 10.0))

    async def elect(
        self, shard: str, prefer: str | None = None, *, aborts: bool = False, timeout: float = 10.0
    ) -> Metadata:
        """Hand a shard over to another leader. With `aborts`, a change that is being prepared is dropped."""
        body = ElectLeader(shard, NodeId(prefer) if prefer is not None else None, aborts)
        return _METADATA.decode(await self._call("operator.elect", body, timeout))

    async def swap(self, shard: str, old: str, new: str, *, timeout: float = 60.0) -> Metadata:
        return await self._change(Reconfiguration(shard, ChangeOp.SWAP, NodeId(old), NodeId(new)), timeout)

    async def expand(self, shard: str, new: str, *, timeout: float = 60.0) -> Metadata:
        return await self._change(Reconfiguration(shard, ChangeOp.EXPAND, None, NodeId(new)), timeout)

    async def contract(self, shard: str, old: str, *, timeout: float = 60.0) -> Metadata:
        return await self._change(Reconfiguration(shard, ChangeOp.CONTRACT, NodeId(old), None), timeout)

    async def _change(self, change: Reconfiguration, timeout: float) -> Metadata:
        return _METADATA.decode(await self._call("operator.reconfigure", change, timeout))

    async def _call(self, method: str, body: Any, timeout: float) -> bytes:
        """Ask one after the other until one takes it. What may have been done is not asked again."""
        data = _encode(body) if body is not None else b""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        last: PenstockError = Unavailable("no operator was asked")
        while (left := deadline - loop.time()) > 0:
            for channel in self._channels:
                try:
                    return (await channel.call(method, data, deadline_s=left)).body
                except Indeterminate:
                    raise
                except Unavailable as error:
                    last = error
            await asyncio.sleep(RETRY_S)
        raise last
