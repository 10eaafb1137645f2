"""What a broker offers on the wire: to clients, and to its peers."""

import msgspec

from penstock.journals.broker.broker_server import BrokerServer
from penstock.journals.broker.links.replicate_link import ReplicateLink
from penstock.journals.broker.reads import serve_read
from penstock.journals.broker.sessions import AppendSession
from penstock.journals.broker.status.explain import explain
from penstock.journals.records.names import check_journal_name
from penstock.journals.records.protocol import (
    APPEND,
    APPLY,
    EXPLAIN,
    FRAGMENTS,
    LIST,
    PRUNE,
    READ,
    REPLICATE,
    RESET_HEAD,
    RESOLVE,
    AppendHello,
    Applied,
    Apply,
    Fragments,
    JournalQuery,
    ListQuery,
    ReplicateHello,
    Resolved,
    ResolveQuery,
)
from penstock.kernel.codec import Codec
from penstock.kernel.errors import InvalidArgument, MalformedFrame
from penstock.plumbing.wire.message import WireCall
from penstock.plumbing.wire.server_stream import ServerStream
from penstock.plumbing.wire.service import Service

__all__ = ["BrokerService"]

TIMEOUT_MS_MAX = 600_000
_encode = msgspec.msgpack.Encoder().encode
_REPLICATE = Codec[ReplicateHello](ReplicateHello)
_APPEND = Codec[AppendHello](AppendHello)
_LIST = Codec[ListQuery](ListQuery)
_APPLY = Codec[Apply](Apply)
_JOURNAL = Codec[JournalQuery](JournalQuery)
_RESOLVE = Codec[ResolveQuery](ResolveQuery)


class BrokerService:
    """The methods of a broker."""

    def __init__(self, server: BrokerServer) -> None:
        self._server = server

    def register(self, service: Service) -> None:
        service.pipelined(REPLICATE)(self._replicate)
        service.pipelined(APPEND)(self._append)
        service.stream(READ)(self._read)
        service.stream(LIST)(self._list)
        service.unary(APPLY)(self._apply)
        service.unary(FRAGMENTS)(self._fragments)
        service.unary(PRUNE)(self._prune)
        service.unary(RESOLVE)(self._resolve)
        service.unary(RESET_HEAD)(self._reset_head)
        service.unary(EXPLAIN)(self._explain)

    def _replicate(self, stream: ServerStream) -> ReplicateLink:
        hello = _REPLICATE.decode(stream.body)
        return self._server.served(hello.journal).links.accept(hello, stream)

    def _append(self, stream: ServerStream) -> AppendSession:
        hello = _APPEND.decode(stream.body)
        check_journal_name(hello.journal)
        return AppendSession(self._server, hello.journal, stream, hello.min_revision)

    async def _read(self, stream: ServerStream) -> None:
        await serve_read(self._server, stream)

    async def _list(self, stream: ServerStream) -> None:
        query = _LIST.decode(stream.body)
        query.selector.validate()
        catalog = self._server.catalog
        await self._server.caught_up(query.min_revision)
        await self._server.caught_up(await catalog.unheard(query.selector))
        async for listing in catalog.listings(query):
            await stream.send(_encode(listing))

    async def _apply(self, call: WireCall) -> bytes:
        return _encode(Applied(await self._server.catalog.apply(_APPLY.decode(call.body))))

    async def _fragments(self, call: WireCall) -> bytes:
        query = await self._query(call)
        host = self._server.served(query.journal)
        fragments = host.fragments
        await fragments.refreshed()
        await host.come_to(query.min_head)
        if any(not gap.is_jumped for gap in fragments.gaps()):
            await fragments.refresh_soon()  # a broker which has left the journal may have stored it meanwhile
        known, gaps = tuple(fragments.known()), tuple(fragments.gaps())
        return _encode(Fragments(known, fragments.write_head, fragments.is_refreshed, gaps))

    async def _prune(self, call: WireCall) -> bytes:
        query = await self._query(call)
        fragments = self._server.served(query.journal).fragments
        removed = await fragments.prune()
        return _encode(Fragments(tuple(removed), fragments.write_head, fragments.is_refreshed))

    async def _resolve(self, call: WireCall) -> bytes:
        query = _RESOLVE.decode(call.body)
        check_journal_name(query.journal)
        if not 0 <= query.begin <= query.end:
            raise InvalidArgument(f"[{query.begin}, {query.end}) is no span of offsets")
        return _encode(Resolved(await self._server.resolve(query), self._server.me))

    async def _reset_head(self, call: WireCall) -> bytes:
        query = await self._query(call)
        return _encode(await self._server.served(query.journal).reset_head(query.timeout_ms, query.offset))

    async def _explain(self, call: WireCall) -> bytes:
        query = await self._query(call)
        return _encode(explain(self._server, self._server.served(query.journal)))

    async def _query(self, call: WireCall) -> JournalQuery:
        """Return the query, as soon as this broker knows the KeySpace up to the client's revision."""
        query = _JOURNAL.decode(call.body)
        check_journal_name(query.journal)
        if not 0 < query.timeout_ms <= TIMEOUT_MS_MAX:
            raise MalformedFrame(f"timeout_ms {query.timeout_ms}: expected 1 to {TIMEOUT_MS_MAX}")
        if query.min_head < 0:
            raise MalformedFrame(f"min_head {query.min_head}: expected an offset")
        await self._server.caught_up(query.min_revision)
        return query
