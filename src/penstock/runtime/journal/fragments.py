"""The Fragments of one journal at one broker: those in the Spool's files, those in stores, and the way between.

Local ones are served from their files. A finished one is handed to the persister, and its file is dropped when it is in
the store. `find` answers where an offset is; its rules are the core's (`journal/reading.py`).
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol

from penstock.base.ids import Offset
from penstock.journal.fragment import Fragment
from penstock.journal.head import HeadTable
from penstock.journal.reading import HEAD, Found, Jump, Wait, find
from penstock.runtime.journal.spool_files import SpoolFiles

__all__ = ["JournalFragments"]


class Owner(Protocol):
    """The replica whose Fragments these are."""

    mark: Offset

    @property
    def table(self) -> HeadTable: ...

    def on_index(self, end: Offset) -> None: ...

    def wake_readers(self) -> None: ...


class JournalFragments:
    """What there is of a journal, and where."""

    def __init__(self, journal: str, files: SpoolFiles, owner: Owner) -> None:
        self.journal = journal
        self.is_refreshed = False  # the stores were listed at least once
        self._files = files
        self._owner = owner
        self._index: list[Fragment] = []
        self._refreshed = asyncio.Event()

    # asking

    @property
    def write_head(self) -> Offset:
        return max(self._owner.mark, self._index[-1].end if self._index else Offset(0))

    def known(self) -> list[Fragment]:
        """Everything, local and stored, below the mark."""
        return [*self._index, *self._local()]

    def _local(self) -> list[Fragment]:
        return [each for each in self._files.fragments() if each.end <= self._owner.mark]

    def find(self, offset: Offset) -> Found | Jump | Wait:
        """Where the content at an offset is: in a file here, in a store, nowhere yet, or gone for good."""
        mark = self._owner.mark
        file = self._files.at(offset) if HEAD < offset < mark else None
        if file is not None:
            end = min(file.end, mark)
            return Found(offset, Fragment(self.journal, file.begin, end), end)
        return find(offset, mark, self._index, self._owner.table, is_refreshed=self.is_refreshed)

    async def content(self, fragment: Fragment, offset: Offset, end: Offset, piece_bytes: int) -> AsyncIterator[Any]:
        """[offset, end) of a Fragment, piece by piece."""
        file = self._files.at(offset)
        assert file is not None
        file.hold()
        try:
            while offset < end:
                piece = file.read(offset - file.begin, min(piece_bytes, end - offset))
                yield piece
                offset = Offset(offset + len(piece))
        finally:
            file.release()

    async def refreshed(self) -> None:
        await self._refreshed.wait()

    def offset_since(self, offset: Offset, mod_time: int) -> Offset:
        """Where a reader begins who wants nothing that was stored before."""
        for fragment in self._index:
            if fragment.mod_time >= mod_time:
                return max(offset, fragment.begin)
        return max(offset, self._index[-1].end) if self._index else offset

    async def url(self, fragment: Fragment) -> str:
        return ""

    @property
    def waiting_bytes(self) -> int:
        return sum(each.length for each in self._files.fragments())

    # life

    def start(self, final: tuple[Fragment, ...]) -> None:
        self.is_refreshed = True
        self._refreshed.set()
        self._owner.on_index(Offset(0))

    def upload(self, fragment: Fragment) -> None:
        self._files.finish(fragment).release()

    def drop(self) -> None:
        self._files.drop()

    async def prune(self) -> list[Fragment]:
        return []

    async def stored(self) -> None:
        pass
