"""The Fragments of one journal at one broker: those in the Spool's files, those in stores, and the way between.

Local ones are served from their files. A finished one is handed to the persister, and its file goes when it is in the
store. The stores are listed when the replica starts, and then from time to time; the primary also removes Fragments
older than the retention, and those that larger ones cover. `find` answers where an offset is; its rules are the core's
(`journals/records/reading.py`).

    {root}/retained/{journal}    everything below this offset was removed by retention: any broker's readers may jump
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, Protocol

from penstock.journals.broker.persister import Persister
from penstock.journals.broker.spools.spool_files import DamagedSpan, SpoolFiles
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.fragment_index import FragmentIndex, Gap
from penstock.journals.records.head import HeadTable
from penstock.journals.records.reading import HEAD, Found, Jump, Wait, find
from penstock.journals.records.spec import Flags, JournalSpec
from penstock.journals.storage.fragment_store import FragmentStores
from penstock.kernel.errors import PenstockError
from penstock.kernel.ids import NodeId, Offset
from penstock.plumbing.ports.ports import Clocks
from penstock.plumbing.process.logs import get_logger

__all__ = ["JournalFragments", "Shelf"]

COVERED_GRACE_S: Final = 600  # after this time no reader still reads a covered Fragment
SIGNED_S: Final = 3_600
RETRY_S: Final = 1.0  # after a listing which failed
RETRY_S_MAX: Final = 60.0
log = get_logger()


class Shelf(Protocol):
    """What the fragments of all journals of a broker share."""

    stores: FragmentStores
    persister: Persister
    listing: asyncio.Semaphore  # how many stores are listed at a time: a broker may open thousands of journals at once

    def damages(self, journal: str) -> list[DamagedSpan]:
        """Offsets of the journal whose content is in this broker's quarantine."""
        ...

    def nested(self, journal: str) -> list[str]:
        """Journals whose names begin with this one's, and a slash."""
        ...

    def retained_from(self, journal: str) -> Offset:
        """Below this offset retention has removed everything."""
        ...

    async def retain(self, journal: str, offset: Offset) -> None:
        """Let every broker know that this is so, before it is done."""
        ...


class Owner(Protocol):
    """The replica whose Fragments these are."""

    mark: Offset

    @property
    def is_primary(self) -> bool: ...

    @property
    def table(self) -> HeadTable: ...

    def on_index(self, end: Offset) -> None: ...

    def wake_readers(self) -> None: ...


class JournalFragments:
    """What there is of a journal, and where."""

    def __init__(self, journal: str, files: SpoolFiles, owner: Owner, shelf: Shelf, clock: Clocks) -> None:
        self.journal = journal
        self._index = FragmentIndex(journal)
        self._files = files
        self._owner = owner
        self._shelf = shelf
        self._clock = clock
        self._spec: JournalSpec | None = None
        self._begin = Offset(0)  # of this life of the journal
        self._was_primary = False
        self._primary: NodeId | None = None
        self._before = Offset(0)  # what begins below was written under another primary, or in an earlier run
        self._refreshed = asyncio.Event()
        self._listed_ns = 0
        self._is_stale = asyncio.Event()  # the stores are to be listed now
        self._refreshing: asyncio.Task[None] | None = None

    # asking

    @property
    def is_refreshed(self) -> bool:
        """True if the stores were listed at least once, so that an unknown Fragment does not exist."""
        return self._index.is_refreshed

    async def refreshed(self) -> None:
        await self._refreshed.wait()

    async def listed_within(self, seconds: float) -> bool:
        """Wait for the first listing of the stores, but not for ever; return whether it came."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._refreshed.wait()
        return self.is_refreshed

    @property
    def write_head(self) -> Offset:
        return max(self._owner.mark, self._index.end)

    def known(self) -> list[Fragment]:
        """Return the cover set of all Fragments, local and stored, as far as readers may see it."""
        return list(self._index.fragments(self._current()))

    def gaps(self) -> list[Gap]:
        """Offsets which nothing covers, from where retention ended up to what readers may see."""
        resets = (each.start for each in self._owner.table.entries if each.is_reset)
        return self._index.gaps(self._current(), start=self._first, reset=max(resets, default=Offset(0)))

    @property
    def _first(self) -> Offset:
        """Return where the journal begins: former lives, and content that retention has removed, are below."""
        return max(self._begin, self._index.retained_from, self._shelf.retained_from(self.journal))

    def _current(self) -> Fragment | None:
        """The Fragment which is being written, as far as readers may see it."""
        mark = self._owner.mark
        file = self._files.at(Offset(mark - 1)) if mark else None
        return Fragment(self.journal, file.begin, min(file.end, mark)) if file is not None else None

    @property
    def waiting_bytes(self) -> int:
        return sum(each.length for each in self._shelf.persister.waiting(self.journal))

    def find(self, offset: Offset) -> Found | Jump | Wait:
        """Find the content at an offset: in a file here, in a store, nowhere yet, or gone for good."""
        mark = self._owner.mark
        file = self._files.at(offset) if HEAD < offset < mark else None
        if file is not None:
            end = min(file.end, mark)
            return Found(offset, Fragment(self.journal, file.begin, end), end)
        return find(
            offset,
            max(mark, self._index.local_end),  # a Fragment that is final is decided, whatever became of the mark
            self._index.cover,
            self._owner.table,
            is_refreshed=self.is_refreshed,
            retained_from=self._first,
            is_mirror=self._spec is not None and self._spec.flags is Flags.READ_ONLY,
            now_ms=self._clock.time_ns() // 1_000_000,
        )

    def damage_at(self, offset: Offset) -> DamagedSpan | None:
        """The damaged content that had this offset here."""
        return next((each for each in self._shelf.damages(self.journal) if each.begin <= offset < each.end), None)

    def offset_since(self, offset: Offset, mod_time: int) -> Offset:
        """Return where a reader begins that wants nothing stored before `mod_time`."""
        if offset == HEAD:
            return offset
        skipped = self._index.skip_older(offset, mod_time)
        current = self._current()
        return min(skipped, max(offset, current.begin)) if current is not None else skipped

    async def content(self, fragment: Fragment, offset: Offset, end: Offset, piece_bytes: int) -> AsyncIterator[Any]:
        """[offset, end) of a Fragment, piece by piece. Nothing, if it has moved meanwhile: find it again."""
        file = self._files.at(offset)
        if file is None:
            if fragment.backing_store:
                async for stored in self._shelf.stores.read(fragment, offset, end):
                    yield stored
            return
        file.hold()
        try:
            while offset < end:
                piece = file.read_checked(offset - file.begin, min(piece_bytes, end - offset))
                yield piece
                offset = Offset(offset + len(piece))
        finally:
            file.release()

    async def url(self, fragment: Fragment) -> str:
        """Return a URL where any client can read it without us, for a while; empty if none exists."""
        return await self._shelf.stores.sign(fragment, SIGNED_S) if fragment.backing_store else ""

    # life

    def start(self, final: tuple[Fragment, ...]) -> None:
        """Begin to list; `final` are Fragments of an earlier run which are still to be stored."""
        for fragment in final:
            self._index.add_local(fragment)
        self._refreshing = asyncio.create_task(self._keep_refreshed(), name=f"{self.journal}: refreshes its index")

    def on_primary(self, primary: NodeId | None) -> None:
        """Another one leads. The new primary need not have the earlier content, and the brokers that have it may be
        gone: wait for neither.
        """
        if primary is not None and primary != self._primary:
            self._primary, self._before = primary, self._files.end
            self._shelf.persister.hasten(self.journal)

    def on_topology(self, spec: JournalSpec | None, begin: Offset) -> None:
        """The spec may name other stores, and this broker may be the primary from now on. This life of the journal
        begins at `begin`.
        """
        stores = self._stores
        if spec is not None:
            self._spec, self._begin = spec, begin
            self._index.begin_at(begin)
        is_primary = self._owner.is_primary
        if is_primary and not self._was_primary:
            self._shelf.persister.hasten(self.journal)
        self._was_primary = is_primary
        if self._stores != stores:
            self._is_stale.set()
            for fragment in self._files.fragments():
                self._submit(fragment)

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._refreshing

    # storing

    @property
    def _stores(self) -> tuple[str, ...]:
        return self._spec.fragment.stores if self._spec is not None else ()

    def upload(self, fragment: Fragment) -> None:
        """It is final: into the store with it, if there is one."""
        self._files.finish(fragment).release()
        self._index.add_local(fragment)
        self._submit(fragment)

    def _submit(self, fragment: Fragment) -> None:
        file = self._files.hold(fragment) if self._stores else None
        if file is not None:
            is_late = not self._owner.is_primary and fragment.begin >= self._before
            self._shelf.persister.submit(fragment, file, self._stores, is_late=is_late, on_stored=self._on_stored)

    def _on_stored(self, stored: Fragment) -> None:
        self._index.add_stored(stored)
        self._forget_stored()
        self._owner.wake_readers()

    def _forget_stored(self) -> None:
        for fragment in self._index.stored_locals():
            self._index.remove_local(fragment)
            self._files.forget(fragment)

    def drop(self) -> None:
        """Drop all content: the journal was deleted, or has another life."""
        self._shelf.persister.cancel(self.journal)
        self._files.drop()
        self._index = FragmentIndex(self.journal)
        self._index.begin_at(self._begin)
        self._refreshed.clear()
        self._is_stale.set()

    async def stored(self) -> None:
        """Wait until everything which is final is in the store, without waiting for others to store it."""
        self._shelf.persister.hasten(self.journal)
        await self._shelf.persister.stored(self.journal)

    # listing and removing

    async def _keep_refreshed(self) -> None:
        pause_s = RETRY_S
        while True:
            try:
                await self.refresh()
                if self._owner.is_primary:
                    await self.prune()
            except PenstockError as error:
                log.warning("stores not listed", journal=self.journal, reason=str(error))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)
            else:
                pause_s = RETRY_S
                interval_ms = self._spec.fragment.refresh_interval_ms if self._spec is not None else 1_000
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(interval_ms / 1_000):
                        await self._is_stale.wait()

    async def refresh_soon(self) -> None:
        """List the stores now, unless that was done a moment ago; return when it is done."""
        if self.is_refreshed and self._clock.monotonic_ns() - self._listed_ns < RETRY_S * 1e9:
            return
        self._refreshed.clear()
        self._is_stale.set()
        await self._refreshed.wait()

    async def refresh(self) -> None:
        """List the stores."""
        self._is_stale.clear()
        index, number = self._index, self._index.begin_listing()
        shelf = self._shelf
        async with shelf.listing:
            listed = await shelf.stores.list(self.journal, self._stores, nested=shelf.nested(self.journal))
        if index is not self._index:
            return  # of a former life
        index.end_listing(number, listed)
        for one, other in index.conflicts():
            log.error(
                "offsets were written twice", journal=self.journal, one=one.content_name, other=other.content_name
            )
        self._forget_stored()
        self._listed_ns = self._clock.monotonic_ns()
        self._refreshed.set()
        self._owner.on_index(max((each.end for each in index.stored), default=Offset(0)))
        self._owner.wake_readers()

    async def prune(self) -> list[Fragment]:
        """Remove Fragments older than the retention, and covered ones; return them."""
        if self._spec is None or not self._spec.flags.may_write:
            return []
        index, now_s = self._index, self._clock.time_ns() // 1_000_000_000
        aged = index.aged(now_s, self._spec.fragment.retention_ms)
        if aged:
            await self._shelf.retain(self.journal, index.retain(aged))
        removed = {id(each): each for each in [*aged, *index.covered(now_s, COVERED_GRACE_S)]}
        if removed:
            await self._shelf.stores.delete(removed.values())
            index.remove_stored(removed.values())
            log.info("fragments removed", journal=self.journal, fragments=len(removed), aged=len(aged))
        return list(removed.values())
