"""Reads a recovery log as fast as it can be read: stored fragments straight from their store, the rest from a broker.

Invariants: chunks are in order, and a chunk begins after the end of the last only where the log has a hole, as pruning
leaves them. A broker which was asked too early may not know yet what another has stored, so a hole is taken for one
only after some patience. Chunks are read ahead, within a bound.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from penstock.consumers.core.recoverylog.playback import AtHead, LogChunk
from penstock.journals.client.journal import Journals
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.protocol import Fragments
from penstock.journals.storage.fragment_store import FragmentStores
from penstock.kernel.errors import AlreadyClosed, InvalidArgument, PenstockError, StorageError, Unavailable
from penstock.kernel.ids import Offset
from penstock.plumbing.process.logs import get_logger

__all__ = ["LogReader"]

AHEAD: Final = 4  # chunks
PATIENCE: Final = 20  # how often a hole is looked at again
PAUSE_S: Final = 0.1

log = get_logger()


class LogReader:
    """Reads on from wherever it is asked to, mostly where it was."""

    def __init__(self, journals: Journals, name: str, stores: FragmentStores | None = None) -> None:
        self._journals = journals
        self._log = name
        self._stores = stores  # None: everything comes from brokers
        self._chunks: asyncio.Queue[LogChunk | AtHead | PenstockError] = asyncio.Queue(AHEAD)
        self._task: asyncio.Task[None] | None = None
        self._at = Offset(0)
        self.stored_bytes = 0  # which came straight from a store

    async def next(self, offset: Offset, *, follow: bool) -> LogChunk | AtHead:
        """Return the chunk at an offset. At the end of the log, return `AtHead`, or with `follow` wait for the next
        chunk.
        """
        if self._task is None or offset != self._at:
            await self.close()
            self._start(offset)
        while True:
            found = await self._chunks.get()
            if isinstance(found, PenstockError):
                await self.close()
                raise found
            if isinstance(found, LogChunk):
                self._at = Offset(found.offset + len(found.data))
                return found
            if not follow:
                return found

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _start(self, offset: Offset) -> None:
        self._at = offset
        self._chunks = asyncio.Queue(AHEAD)
        self._task = asyncio.create_task(self._read_on(offset), name=f"{self._log}: read")

    async def _read_on(self, offset: Offset) -> None:
        try:
            async for chunk in self._read(offset):
                await self._chunks.put(chunk)
        except PenstockError as error:
            await self._chunks.put(error)

    async def _read(self, offset: Offset) -> AsyncIterator[LogChunk | AtHead]:
        """Yield all chunks up to the end, then the end itself, then new chunks as they come."""
        while True:
            known = await self._known(offset)
            if offset >= known.write_head:
                break
            span = _span(known, offset)
            async for chunk in self._span(known, *span):
                yield chunk
                offset = Offset(chunk.offset + len(chunk.data))
        yield AtHead(known.write_head)
        async for more in self._journals.read(self._log, offset, follow=True):
            yield LogChunk(more.offset, bytes(more.content))

    async def _known(self, offset: Offset) -> Fragments:
        """The fragments, when they cover the offset, or end at it; or when they do not after all."""
        for _ in range(PATIENCE):
            known = await self._journals.fragments(self._log)
            if known.is_refreshed and (offset == known.write_head or _covering(known, offset) is not None):
                return known
            await asyncio.sleep(PAUSE_S)
        known = await self._journals.fragments(self._log)
        if not known.is_refreshed:
            raise Unavailable(f"{self._log}: its stores could not be listed yet")
        return known

    async def _span(self, known: Fragments, begin: Offset, end: Offset) -> AsyncIterator[LogChunk]:
        fragment = _covering(known, begin)
        if fragment is not None and fragment.backing_store and self._stores is not None:
            try:
                async for data in self._stores.read(fragment, begin, fragment.end):
                    yield LogChunk(begin, bytes(data))
                    begin = Offset(begin + len(data))
                    self.stored_bytes += len(data)
                return
            except (StorageError, InvalidArgument, AlreadyClosed) as error:
                log.info("a store cannot be read from here: brokers are asked", log=self._log, reason=str(error))
                self._stores = None
        async for chunk in self._journals.read(self._log, begin, end=end):
            yield LogChunk(chunk.offset, bytes(chunk.content))


def _covering(known: Fragments, offset: Offset) -> Fragment | None:
    """Return the fragment that reaches furthest; one in a store, if there is one."""
    found = [each for each in known.fragments if each.covers(offset)]
    return max(found, key=lambda each: (bool(each.backing_store), each.end), default=None)


def _span(known: Fragments, offset: Offset) -> tuple[Offset, Offset]:
    """Return the span from the offset, or from the end of the hole in which it lies, up to the next hole."""
    begin: Any = None
    end = offset
    for fragment in sorted(known.fragments, key=lambda each: each.begin):
        if fragment.end <= offset:
            continue
        if begin is None:
            begin = max(offset, fragment.begin)
            end = fragment.end
        elif fragment.begin <= end:
            end = max(end, fragment.end)
    return Offset(offset if begin is None else begin), end
