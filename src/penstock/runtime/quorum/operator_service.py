"""What an operator offers on the wire: to people, through the command line."""

from typing import TYPE_CHECKING

import msgspec

from penstock.base.codec import Codec
from penstock.base.ids import NodeId
from penstock.quorum.messages import ChangeOp
from penstock.quorum.metadata import Metadata
from penstock.runtime.wire.message import Call
from penstock.runtime.wire.service import Service

if TYPE_CHECKING:  # clients want the records alone
    from penstock.runtime.quorum.operator_server import OperatorServer

__all__ = ["AddNode", "Create", "ElectLeader", "OperatorService", "OperatorStatus", "Reconfiguration"]


class AddNode(msgspec.Struct, frozen=True):
    """Remember where a node listens."""

    node: NodeId
    address: str


class Create(msgspec.Struct, frozen=True):
    """A new shard."""

    shard: str
    nodes: list[NodeId]


class ElectLeader(msgspec.Struct, frozen=True):
    """Hold an election; `prefer` wins if it is as far as any."""

    shard: str
    prefer: NodeId | None = None


class Reconfiguration(msgspec.Struct, frozen=True):
    """Change an ensemble."""

    shard: str
    op: ChangeOp
    old: NodeId | None = None
    new: NodeId | None = None


class OperatorStatus(msgspec.Struct, frozen=True):
    """What an operator knows: where nodes are, and every shard with what it is doing about it."""

    operator: NodeId
    nodes: dict[NodeId, str]
    shards: dict[str, tuple[Metadata | None, str]]


_ADD = Codec[AddNode](AddNode)
_CREATE = Codec[Create](Create)
_ELECT = Codec[ElectLeader](ElectLeader)
_CHANGE = Codec[Reconfiguration](Reconfiguration)
_encode = msgspec.msgpack.Encoder().encode


class OperatorService:
    """The methods of an operator."""

    def __init__(self, operator: "OperatorServer") -> None:
        self._operator = operator

    def register(self, service: Service) -> None:
        service.unary("operator.add-node")(self._add_node)
        service.unary("operator.create")(self._create)
        service.unary("operator.elect")(self._elect)
        service.unary("operator.reconfigure")(self._reconfigure)
        service.inline("operator.status")(self._status)

    async def _add_node(self, call: Call) -> bytes:
        wanted = _ADD.decode(call.body)
        await self._operator.add_node(wanted.node, wanted.address)
        return b""

    async def _create(self, call: Call) -> bytes:
        wanted = _CREATE.decode(call.body)
        return _encode(await self._operator.create(wanted.shard, wanted.nodes))

    async def _elect(self, call: Call) -> bytes:
        wanted = _ELECT.decode(call.body)
        return _encode(await self._operator.elect(wanted.shard, wanted.prefer))

    async def _reconfigure(self, call: Call) -> bytes:
        wanted = _CHANGE.decode(call.body)
        return _encode(await self._operator.reconfigure(wanted.shard, wanted.op, wanted.old, wanted.new))

    def _status(self, call: Call) -> bytes:
        operator = self._operator
        return _encode(OperatorStatus(operator.me, operator.directory, operator.metadata()))
