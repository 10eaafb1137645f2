"""What an operator offers on the wire: to people, through the command line."""

import msgspec

from penstock.kernel.codec import Codec
from penstock.plumbing.wire.message import WireCall
from penstock.plumbing.wire.service import Service
from penstock.quorum.operator.operator_server import OperatorServer
from penstock.quorum.records.operator_calls import AddNode, Create, ElectLeader, OperatorStatus, Reconfiguration

__all__ = ["OperatorService"]


_ADD = Codec[AddNode](AddNode)
_CREATE = Codec[Create](Create)
_ELECT = Codec[ElectLeader](ElectLeader)
_CHANGE = Codec[Reconfiguration](Reconfiguration)
_encode = msgspec.msgpack.Encoder().encode


class OperatorService:
    """The methods of an operator."""

    def __init__(self, operator: OperatorServer) -> None:
        self._operator = operator

    def register(self, service: Service) -> None:
        service.unary("operator.add-node")(self._add_node)
        service.unary("operator.create")(self._create)
        service.unary("operator.elect")(self._elect)
        service.unary("operator.reconfigure")(self._reconfigure)
        service.inline("operator.status")(self._status)

    async def _add_node(self, call: WireCall) -> bytes:
        wanted = _ADD.decode(call.body)
        await self._operator.add_node(wanted.node, wanted.address)
        return b""

    async def _create(self, call: WireCall) -> bytes:
        wanted = _CREATE.decode(call.body)
        return _encode(await self._operator.create(wanted.shard, wanted.nodes))

    async def _elect(self, call: WireCall) -> bytes:
        wanted = _ELECT.decode(call.body)
        return _encode(await self._operator.elect(wanted.shard, wanted.prefer, aborts=wanted.aborts))

    async def _reconfigure(self, call: WireCall) -> bytes:
        wanted = _CHANGE.decode(call.body)
        return _encode(await self._operator.reconfigure(wanted.shard, wanted.op, wanted.old, wanted.new))

    def _status(self, call: WireCall) -> bytes:
        operator = self._operator
        return _encode(OperatorStatus(operator.me, operator.directory, operator.metadata()))
