"""A source journal as its shard reads it: continuously, a bounded piece ahead; and some of it again, on request.

The bytes read ahead are bounded by `AHEAD_BYTES`, and a chunk or so.
"""

import asyncio
import contextlib
from collections import deque
from typing import Final

from penstock.consumers.core.effects import ReadSource, SourceChunk
from penstock.journals.client.journal import Journals
from penstock.kernel.errors import Unavailable
from penstock.kernel.ids import Offset

__all__ = ["SourceReader"]

AHEAD_BYTES: Final = 2 << 20


class SourceReader:
    """Reads one journal for one shard. One `read` at a time."""

    def __init__(self, journals: Journals, journal: str) -> None:
        self._journals = journals
        self._journal = journal
        self._ahead: deque[tuple[Offset, bytes]] = deque()  # each begins where the one before ends, or after a gap
        self._ahead_bytes = 0
        self._next_at = Offset(-1)  # where the next read continues, unless it is another one
        self._changed = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    async def read(self, wanted: ReadSource) -> SourceChunk:
        """Return the bytes at hand from there on; wait until there are some."""
        if wanted.end is not None:
            return await self._read_again(wanted)
        if self._pump is None or wanted.begin != self._next_at:
            await self.close()
            self._pump = asyncio.create_task(self._follow(wanted.begin), name=f"reads {self._journal}")
        while not self._ahead:
            self._changed.clear()
            if self._pump.done():
                self._pump.result()
                raise Unavailable(f"reading {self._journal} ended")
            changed = asyncio.create_task(self._changed.wait())
            try:
                await asyncio.wait({changed, self._pump}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
        return self._take()

    async def close(self) -> None:
        pump, self._pump = self._pump, None
        self._ahead.clear()
        self._ahead_bytes = 0
        if pump is not None:
            pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(pump, return_exceptions=True)

    def _take(self) -> SourceChunk:
        """Take all bytes that follow without a gap."""
        offset, first = self._ahead.popleft()
        pieces, end = [first], offset + len(first)
        while self._ahead and self._ahead[0][0] == end:
            pieces.append(self._ahead.popleft()[1])
            end += len(pieces[-1])
        self._ahead_bytes -= end - offset
        self._next_at = Offset(end)
        self._changed.set()
        return SourceChunk(self._journal, offset, pieces[0] if len(pieces) == 1 else b"".join(pieces))

    async def _follow(self, begin: Offset) -> None:
        async for chunk in self._journals.read(self._journal, begin, follow=True):
            if not chunk.content:
                continue
            while self._ahead_bytes >= AHEAD_BYTES:
                self._changed.clear()
                await self._changed.wait()
            self._ahead.append((chunk.offset, bytes(chunk.content)))
            self._ahead_bytes += len(chunk.content)
            self._changed.set()

    async def _read_again(self, wanted: ReadSource) -> SourceChunk:
        assert wanted.end is not None
        async for chunk in self._journals.read(self._journal, wanted.begin, end=wanted.end, follow=True):
            if chunk.content:
                return SourceChunk(self._journal, chunk.offset, bytes(chunk.content))
        raise Unavailable(f"{self._journal} shows nothing of [{wanted.begin}, {wanted.end}), which it has shown before")
