"""Reads: content from an offset on, out of the Spool's files or out of a store.

Design: gazette.md §2.5; journals.md J9, J16.

Invariants: nothing above the mark is sent; content is in order and without a hole, unless a header says that it
continues at a later offset; a waiting reader costs no timer and no task besides its own.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from penstock.journals.broker.broker_server import BrokerServer
from penstock.journals.records.fragment import OFFSET_MAX
from penstock.journals.records.names import check_journal_name
from penstock.journals.records.protocol import ReadHeader, ReadQuery
from penstock.journals.records.reading import HEAD, Found, Jump, Wait
from penstock.kernel.codec import Codec
from penstock.kernel.errors import DataDamaged, DataMissing, Forbidden, InvalidArgument, Unavailable
from penstock.kernel.ids import Offset
from penstock.plumbing.wire.server_stream import ServerStream

__all__ = ["serve_read"]

LISTING_S: Final = 5.0  # what a store has is read, whatever became of the head
PIECE_BYTES: Final = 512 << 10
_QUERY = Codec[ReadQuery](ReadQuery)
_encode = msgspec.msgpack.Encoder().encode


async def serve_read(server: BrokerServer, stream: ServerStream) -> None:
    """Answer one read, until its end, or for as long as its reader stays."""
    query = _QUERY.decode(stream.body)
    _check(query)
    await server.caught_up(query.min_revision)
    if not server.catalog.spec(query.journal).flags.may_read:
        raise Forbidden(f"{query.journal} is write-only")
    await _Read(server, query, stream).run()


def _check(query: ReadQuery) -> None:
    check_journal_name(query.journal)
    if not HEAD <= query.offset <= OFFSET_MAX or not 0 <= query.end <= OFFSET_MAX or query.min_head < 0:
        raise InvalidArgument(f"offset {query.offset}, end {query.end}: expected offsets, or -1 for the end")


class _Read:
    """One read on its way."""

    def __init__(self, server: BrokerServer, query: ReadQuery, stream: ServerStream) -> None:
        self._server = server
        self._host = server.served(query.journal)
        self._query = query
        self._stream = stream
        self._offset = query.offset
        self._told: tuple[Offset, str] | None = None  # the Fragment of the last header

    async def run(self) -> None:
        query, fragments = self._query, self._host.fragments
        if query.begin_mod_time:
            await fragments.refreshed()
            self._offset = fragments.offset_since(self._offset, query.begin_mod_time)
        while not query.end or self._offset < query.end:
            found = self._find()
            if isinstance(found, Found):
                await self._tell(found)
                if query.is_metadata_only:
                    return
                await self._send(found)
            elif isinstance(found, Jump):
                self._offset = found.to
            elif HEAD < found.offset < self._host.mark:
                await self._look_again(found.offset)
            elif not await self._goes_on(found):
                return

    async def _goes_on(self, found: Wait) -> bool:
        """Wait for more at the end of the journal. Return False where the read ends."""
        query, fragments = self._query, self._host.fragments
        if not self._host.replica.knows_head:
            if fragments.is_refreshed or not await fragments.listed_within(LISTING_S):
                await self._host.come_to_head()
        elif (not query.blocks or self._offset == HEAD) and self._host.may_lag:
            await self._host.come_to_head()
        elif (not query.blocks or self._offset == HEAD) and self._is_behind():
            await self._host.come_to(query.min_head)
        elif fragments.is_refreshed and not query.blocks:
            if self._told is None:
                await self._stream.send(_encode(ReadHeader(found.offset, fragments.write_head)))
            return False
        else:
            self._offset = found.offset
            await self._host.wait_for_change()
        return True

    def _find(self) -> Found | Jump | Wait:
        """Find the content. `DataDamaged`: it is in the quarantine of the only broker of the journal."""
        found = self._host.fragments.find(self._offset)
        if isinstance(found, Wait) and self._host.is_alone:
            damage = self._host.fragments.damage_at(found.offset)
            if damage is not None:
                raise DataDamaged(
                    f"{self._query.journal} [{damage.begin}, {damage.end}) is damaged on {self._host.broker}",
                    next_step=f"look at {damage.entry}/why.json",
                    begin=damage.begin,
                    end=damage.end,
                )
        return found

    def _is_behind(self) -> bool:
        """True if the reader knows of content that this replica does not show yet, because it has not learned of the
        commit.
        """
        return self._host.fragments.write_head < self._query.min_head

    async def _look_again(self, offset: Offset) -> None:
        """There is content, but not here: this broker has come later, and another may just have stored it."""
        fragments = self._host.fragments
        await fragments.refresh_soon()
        if isinstance(fragments.find(offset), Wait):
            if await self._is_lost(offset):
                raise DataMissing(
                    f"no store and no broker has offset {offset} of {self._query.journal}, which was acknowledged",
                    next_step="start brokers that are away, or restore the fragment: "
                    f"penstock journals fragments {self._query.journal}",
                    begin=offset,
                )
            if not isinstance(fragments.find(offset), Wait):
                return
            raise Unavailable(
                f"no fragment has offset {offset} of {self._query.journal}: another broker has it and stores it soon, "
                "or it was removed from the store",
                next_step=f"penstock journals fragments {self._query.journal}",
            )

    async def _is_lost(self, offset: Offset) -> bool:
        """Return whether no other broker runs, and the stores, listed now, do not have the offset."""
        if len(self._server.catalog.brokers()) > 1:
            return False
        await self._host.fragments.refresh()
        return isinstance(self._host.fragments.find(offset), Wait)

    async def _tell(self, found: Found) -> None:
        """Say where the content comes from, whenever that is another Fragment, or another place in it."""
        fragment = found.fragment
        if self._told != (fragment.begin, fragment.backing_store) or found.offset != self._offset:
            self._told = (fragment.begin, fragment.backing_store)
            url = await self._host.fragments.url(fragment)
            header = ReadHeader(found.offset, self._host.fragments.write_head, fragment, url)
            await self._stream.send(_encode(header))
        self._offset = found.offset

    async def _send(self, found: Found) -> None:
        end = min(found.end, self._query.end) if self._query.end else found.end
        if self._query.is_direct and found.fragment.backing_store:
            self._offset = Offset(end)  # the reader gets it from the store
            return
        async for piece in self._pieces(found, Offset(end)):
            await self._stream.send(b"", piece)
            self._offset = Offset(self._offset + len(piece))

    def _pieces(self, found: Found, end: Offset) -> AsyncIterator[Any]:
        return self._host.fragments.content(found.fragment, self._offset, end, PIECE_BYTES)
