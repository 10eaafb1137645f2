"""Reading journals: from whichever broker serves them, or straight from the stores which have their fragments.

Design: journals.md J9, J16; gazette.md §2.5.

A client reads its own writes: a replica whose readers lag behind what this client was acknowledged does not say that
the journal ends earlier. With direct reads a broker only names the fragments that are in a store, and the client reads
and decodes them itself; it asks the broker for bytes that it cannot get there. A fragment that is read as a whole has
its sum checked after its last byte, on both ways.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from penstock.journals.client.journal_content import Buffer
from penstock.journals.records.fragment import OFFSET_MAX, Fragment
from penstock.journals.records.names import check_journal_name
from penstock.journals.records.protocol import FRAGMENTS, READ, Fragments, JournalQuery, ReadHeader, ReadQuery
from penstock.kernel.codec import Codec
from penstock.kernel.errors import DataDamaged, HeadLost, Indeterminate, InvalidArgument, PenstockError, Unavailable
from penstock.kernel.ids import Offset, Revision
from penstock.plumbing.ports.ports import Ports
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wire.client import Channel

if TYPE_CHECKING:
    from penstock.journals.storage.fragment_store import FragmentStores

__all__ = ["Chunk", "JournalReads", "checked_query"]

ATTEMPTS_MAX: Final = 20  # which bring nothing; a reader who follows has no such limit
_encode = msgspec.msgpack.Encoder().encode
_HEADER = Codec[ReadHeader](ReadHeader)
_FRAGMENTS = Codec[Fragments](Fragments)
log = get_logger()


class Chunk(msgspec.Struct, frozen=True):
    """Content of a journal, from an offset on."""

    offset: Offset
    content: Buffer
    fragment: Fragment
    write_head: Offset  # how far the journal had come when this Fragment was found

    @property
    def end(self) -> Offset:
        return Offset(self.offset + len(self.content))


class _NotReached(Exception):
    """A store lacks content that it should have; `at` is where the rest begins."""

    def __init__(self, store: str, at: Offset, error: PenstockError) -> None:
        super().__init__(str(error))
        self.store = store
        self.at = at
        self.error = error


class _FindsBroker(Protocol):
    """Finds a broker that serves a journal."""

    def __call__(self, journal: str, avoid: frozenset[str] = frozenset()) -> Awaitable[str]: ...


class JournalReads:
    """The reads of one client."""

    def __init__(
        self,
        channel: Callable[[str], Channel],
        serving: _FindsBroker,
        pause_s: Callable[[int], float],
        revision: Callable[[], Revision],
        ports: Ports,
        *,
        is_direct: bool,
    ) -> None:
        """`revision`: the revision of the KeySpace that a broker must have to answer."""
        self._channel = channel
        self._serving = serving
        self._pause_s = pause_s
        self._revision = revision
        self._stores = _open_stores(ports) if is_direct else None
        self._unreachable: set[str] = set()  # stores which this client cannot read: brokers do it
        self._ends: dict[str, Offset] = {}  # by journal: the offset up to which it exists, as far as this client knows

    def has_appended(self, journal: str, end: Offset) -> None:
        """Reads of this client show at least so much from now on."""
        if end > self._ends.get(journal, 0):
            self._ends[journal] = end

    def forget(self, journal: str) -> None:
        """It was deleted: its next life has its own end."""
        self._ends.pop(journal, None)

    async def close(self) -> None:
        if self._stores is not None:
            await self._stores.close()

    # reading

    async def read(self, query: ReadQuery, address: str | None) -> AsyncIterator[Chunk]:
        """Content, through all losses of brokers. With an `address` only that broker is asked, once.

        Content that is damaged at one broker is read from the others.
        """
        attempt, hint, damaged = 0, "", frozenset[str]()
        while True:
            asked = msgspec.structs.replace(
                query,
                min_head=min(self._ends.get(query.journal, Offset(0)), query.end or OFFSET_MAX),
                is_direct=self._stores is not None and not self._unreachable,
            )
            at, at_broker = query.offset, address or hint
            try:
                at_broker = at_broker or await self._serving(query.journal, damaged)
                at_broker = at_broker or await self._serving(query.journal)
                async for chunk in self._read_once(asked, at_broker):
                    attempt, at = 0, chunk.end
                    yield chunk
                return
            except _NotReached as missed:
                self._unreachable.add(missed.store)
                log.info("a store is read through brokers", store=missed.store, reason=str(missed.error))
                at = missed.at
            except HeadLost:
                raise  # the same brokers would say the same
            except DataDamaged as error:
                damaged, hint = damaged | {at_broker}, ""
                if address is not None or not await self._serving(query.journal, damaged):
                    raise
                log.error("content is damaged at a broker", journal=query.journal, broker=at_broker, reason=str(error))
            except (Unavailable, Indeterminate) as error:
                attempt, hint = attempt + 1, _hint(error)
                if address is not None or (attempt > ATTEMPTS_MAX and not query.blocks):
                    raise
                await asyncio.sleep(self._pause_s(attempt))
            query = msgspec.structs.replace(query, offset=at)

    async def _read_once(self, query: ReadQuery, address: str) -> AsyncIterator[Chunk]:
        header: ReadHeader | None = None
        at = query.offset
        query = msgspec.structs.replace(query, min_revision=self._revision())
        async with self._channel(address).stream(READ, _encode(query), is_read_only=True) as stream:
            async for message in stream:
                if message.body:
                    header = _HEADER.decode(message.body)
                    at = header.offset
                    if query.is_direct and header.fragment is not None and header.fragment.backing_store:
                        async for chunk in self._stored(header, header.fragment, query.end):
                            yield chunk
                elif header is not None and header.fragment is not None:
                    yield Chunk(at, message.bulk, header.fragment, header.write_head)
                    at = Offset(at + len(message.bulk))

    async def _stored(self, header: ReadHeader, fragment: Fragment, end: Offset) -> AsyncIterator[Chunk]:
        """Read a Fragment from its store, while the broker has moved on to the next."""
        assert self._stores is not None
        at, end = header.offset, min(fragment.end, end or fragment.end)
        try:
            async for piece in self._stores.read(fragment, at, end):
                yield Chunk(at, piece, fragment, header.write_head)
                at = Offset(at + len(piece))
        except PenstockError as error:
            if at == end:
                raise  # all of it came, and its sum is wrong: that is damage, and who read it must know
            raise _NotReached(fragment.backing_store, at, error) from error

    async def stat(self, journal: str, offset: int, address: str | None) -> ReadHeader:
        """Return the header that a read at an offset would begin with."""
        if address is not None:
            return await self._stat(journal, offset, address)
        address = await self._serving(journal)
        try:
            return await self._stat(journal, offset, address)
        except Unavailable as error:
            if not (hint := _hint(error)):
                raise
            return await self._stat(journal, offset, hint)

    async def _stat(self, journal: str, offset: int, address: str) -> ReadHeader:
        query = ReadQuery(
            journal,
            Offset(offset),
            is_metadata_only=True,
            min_revision=self._revision(),
            min_head=self._ends.get(journal, Offset(0)),
        )
        async with self._channel(address).stream(READ, _encode(query), is_read_only=True) as stream:
            async for message in stream:
                return _HEADER.decode(message.body)
        raise Unavailable(f"{address} said nothing about {journal}")

    async def fragments(self, journal: str, timeout: float) -> Fragments:
        """The fragments of a journal, from whichever of its brokers has come as far as this client knows it to be."""
        loop = asyncio.get_running_loop()
        deadline, attempt = loop.time() + timeout, 0
        while True:
            try:
                address = await self._serving(journal)
                left_s = max(0.1, deadline - loop.time())
                known_end = self._ends.get(journal, Offset(0))
                query = JournalQuery(journal, int(left_s * 1_000), self._revision(), known_end)
                answer = await self._channel(address).call(FRAGMENTS, _encode(query), deadline_s=left_s)
                return _FRAGMENTS.decode(answer.body)
            except (Unavailable, Indeterminate):
                attempt += 1
                pause_s = self._pause_s(attempt)
                if loop.time() + pause_s >= deadline:
                    raise
                await asyncio.sleep(pause_s)


def _hint(error: PenstockError) -> str:
    """Return the address of the broker that can answer, if the error names one."""
    hint = error.details.get("ask", "")
    return hint if isinstance(hint, str) else ""


def _open_stores(ports: Ports) -> "FragmentStores":
    from penstock.journals.storage.fragment_store import FragmentStores  # and with it object stores: few need them

    return FragmentStores(ports.open_store)


def checked_query(journal: str, offset: int, end: int, *, follow: bool, begin_mod_time: int) -> ReadQuery:
    """Return a reader's query, or raise an error with its problem."""
    check_journal_name(journal)
    if not -1 <= offset <= OFFSET_MAX:
        raise InvalidArgument(f"offset {offset}: expected 0 and more, or -1 for where the journal ends now")
    if not 0 <= end <= OFFSET_MAX or (end and end < offset):
        raise InvalidArgument(f"end {end}: expected an offset at or above {max(0, offset)}, or 0 for none")
    if not 0 <= begin_mod_time < 1 << 63:
        raise InvalidArgument(f"begin_mod_time {begin_mod_time}: expected a unix time in seconds")
    return ReadQuery(journal, Offset(offset), Offset(end), blocks=follow, begin_mod_time=begin_mod_time)
