"""What a consumer process offers on the wire: how far its shards are, and to restart them."""

from typing import TYPE_CHECKING, Final

import msgspec

from penstock.consumers.core.stat import Stat, StatResult
from penstock.kernel.codec import Codec
from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import Offset
from penstock.plumbing.wire.message import WireCall
from penstock.plumbing.wire.service import Service

if TYPE_CHECKING:  # clients use the records alone
    from penstock.consumers.worker.consumer_server import ConsumerServer

__all__ = ["RESTART", "STAT", "STAT_RESULT", "ConsumerService", "RestartQuery", "StatQuery"]

STAT: Final = "shards.stat"
RESTART: Final = "shards.restart"
TIMEOUT_MS_MAX: Final = 600_000
_encode = msgspec.msgpack.Encoder().encode


class StatQuery(msgspec.Struct, frozen=True):
    """Wait for progress of a shard, for a time."""

    shard: str
    read_through: dict[str, Offset] = {}
    timeout_ms: int = 10_000


class RestartQuery(msgspec.Struct, frozen=True):
    """Begin a new life of a shard."""

    shard: str


_STAT = Codec[StatQuery](StatQuery)
_RESTART = Codec[RestartQuery](RestartQuery)
STAT_RESULT: Final = Codec[StatResult](StatResult)


class ConsumerService:
    """The methods of a consumer."""

    def __init__(self, server: "ConsumerServer") -> None:
        self._server = server

    def register(self, service: Service) -> None:
        service.unary(STAT)(self._stat)
        service.unary(RESTART)(self._restart)

    async def _stat(self, call: WireCall) -> bytes:
        query = _STAT.decode(call.body)
        if not 0 < query.timeout_ms <= TIMEOUT_MS_MAX:
            raise MalformedFrame(f"timeout_ms {query.timeout_ms}: expected 1 to {TIMEOUT_MS_MAX}")
        host = self._server.host(query.shard)
        return _encode(await host.stat(Stat(query.read_through), timeout=query.timeout_ms / 1_000))

    async def _restart(self, call: WireCall) -> bytes:
        self._server.host(_RESTART.decode(call.body).shard).restart()
        return b""
