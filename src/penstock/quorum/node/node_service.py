"""What a node offers on the wire: to peers and operators, and to clients."""

import asyncio

import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.errors import Compacted, LimitExceeded
from penstock.kernel.ids import Offset
from penstock.plumbing.wire.message import WireCall
from penstock.plumbing.wire.server_stream import ServerStream
from penstock.plumbing.wire.service import Service
from penstock.quorum.links.peers import METHOD, PeerHello, PeerLink
from penstock.quorum.node.node_server import NodeServer
from penstock.quorum.node.sessions import AppendSession
from penstock.quorum.node.status import explain
from penstock.quorum.records.api import (
    Committed,
    Hello,
    LeaderFound,
    LeaderQuery,
    ReadQuery,
    ReadResult,
    ResolveQuery,
    ResolveResult,
    SessionFound,
    SessionQuery,
    Subscribe,
    WatchShard,
)
from penstock.quorum.records.entry import Txn

__all__ = ["MemberQuery", "NodeService"]

QUERY_BYTES_MAX = 1 << 20
SUBSCRIBE_BYTES = 1 << 20
_encode = msgspec.msgpack.Encoder().encode


class MemberQuery(msgspec.Struct, frozen=True):
    """Who are you in this shard? Makes the replica if there is none."""

    shard: str
    wiped: bool = False  # set a broken replica aside, and come back as a new incarnation


_PEER = Codec[PeerHello](PeerHello)
_HELLO = Codec[Hello](Hello)
_READ = Codec[ReadQuery](ReadQuery)
_SESSION = Codec[SessionQuery](SessionQuery)
_LEADER = Codec[LeaderQuery](LeaderQuery)
_RESOLVE = Codec[ResolveQuery](ResolveQuery)
_SUBSCRIBE = Codec[Subscribe](Subscribe)
_WATCH = Codec[WatchShard](WatchShard)
_MEMBER = Codec[MemberQuery](MemberQuery)


class NodeService:
    """The methods of a node."""

    def __init__(self, server: NodeServer) -> None:
        self._server = server

    def register(self, service: Service) -> None:
        service.pipelined(METHOD)(self._peer)
        service.pipelined("quorum.append")(self._append)
        service.unary("quorum.read")(self._read)
        service.unary("quorum.session")(self._session)
        service.unary("quorum.resolve")(self._resolve)
        service.unary("quorum.member")(self._member)
        service.unary("quorum.snapshot")(self._snapshot)
        service.inline("quorum.status")(self._status)
        service.inline("quorum.leader")(self._leader)
        service.stream("quorum.subscribe")(self._subscribe)
        service.stream("quorum.watch")(self._watch)

    def _peer(self, stream: ServerStream) -> PeerLink:
        hello = _PEER.decode(stream.body)
        return self._server.host(hello.shard).peers.accept(hello.sender, stream)

    def _append(self, stream: ServerStream) -> AppendSession:
        hello = _HELLO.decode(stream.body)
        return AppendSession(self._server.host(hello.shard), hello.client, stream)

    async def _read(self, call: WireCall) -> bytes:
        query = _READ.decode(call.body)
        if len(query.query) > QUERY_BYTES_MAX:
            raise LimitExceeded(f"a query has at most {QUERY_BYTES_MAX} bytes")
        host = self._server.host(query.shard)
        result, applied = await host.read(query.query, is_linearizable=query.is_linearizable, after=query.after)
        return _encode(ReadResult(result, applied))

    async def _session(self, call: WireCall) -> bytes:
        query = _SESSION.decode(call.body)
        return _encode(SessionFound(await self._server.host(query.shard).highest_seq(query.client)))

    async def _resolve(self, call: WireCall) -> bytes:
        query = _RESOLVE.decode(call.body)
        return _encode(ResolveResult(await self._server.host(query.shard).resolve(query.entry), self._server.node))

    async def _member(self, call: WireCall) -> bytes:
        query = _MEMBER.decode(call.body)
        return _encode(await self._server.member(query.shard, wiped=query.wiped))

    async def _snapshot(self, call: WireCall) -> bytes:
        self._server.host(_MEMBER.decode(call.body).shard).take_snapshot()
        return b""

    def _leader(self, call: WireCall) -> bytes:
        host = self._server.host(_LEADER.decode(call.body).shard)
        leads = host.node.leader is not None and not host.failed
        return _encode(LeaderFound(host.node.epoch, leads, host.leader_address))

    def _status(self, call: WireCall) -> bytes:
        return _encode([(each, explain(each)) for each in self._server.statuses()])

    async def _subscribe(self, stream: ServerStream) -> None:
        """Send committed transactions from an offset on: 1 MiB at most between two turns of the loop.

        Ends with `Compacted` where the log begins later than the subscriber's place. Only the first place may be moved
        up to the beginning of the log, and only if the subscriber does not ask for a log without gaps.
        """
        wanted = _SUBSCRIBE.decode(stream.body)
        host = self._server.host(wanted.shard)
        at = wanted.first if wanted.is_gapless else Offset(max(wanted.first, host.node.log.first))
        while True:
            if at < host.node.log.first:
                raise _compacted(wanted.shard, at, host.node.log.first)
            next_at, entries = await host.entries_from(at, SUBSCRIBE_BYTES)
            transactions = tuple((offset, entry) for offset, entry in entries if isinstance(entry, Txn))
            if next_at > at:  # also without a transaction: a subscriber that waits for an offset learns that it passed
                await stream.send(_encode(Committed(next_at, transactions)))
                at = next_at
            else:
                await host.wait_for_applied(Offset(at - 1))
            await asyncio.sleep(0)  # neither of these has to wait: other shards and heartbeats take their turn here

    async def _watch(self, stream: ServerStream) -> None:
        """Send the changes that the state machine shows, as this node applies them."""
        wanted = _WATCH.decode(stream.body)
        host = self._server.host(wanted.shard)
        await host.wait_for_applied(Offset(wanted.applied - 1))
        after = wanted.after
        while True:
            applied = host.node.replica.applied
            found = host.changes(wanted.query, after)
            if found is not None:
                after, data = found
                await stream.send(data)
                await asyncio.sleep(0)  # others take their turn
            else:
                await host.wait_for_applied(applied)


def _compacted(shard: str, at: Offset, first: Offset) -> Compacted:
    return Compacted(
        f"the log of {shard} begins at {first} here: {at} is trimmed away",
        next_step="begin with a newer checkpoint",
        first=first,
    )
