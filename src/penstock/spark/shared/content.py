"""The bytes of a journal, for tasks: straight from the fragment stores where they are, from brokers where they are not.

`Access` is one process's way to brokers and stores. `chunks` gives `[begin, end)` in large pieces, the next one on its
way while the one before is worked on. A store which cannot be reached from here is no failure: brokers serve the same
bytes. Bytes that are gone (retention, reset-head) are an error, unless the reader was asked to continue after them.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

from penstock.journals.client.journal import Journals
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.reading import cover
from penstock.journals.storage.fragment_store import FragmentStores
from penstock.kernel.errors import Gone, Indeterminate, NotFound, StorageError, Unavailable
from penstock.kernel.ids import Offset
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.loop_thread import LoopThread
from penstock.spark.connection import Connection
from penstock.spark.shared.store_access import can_open

__all__ = ["CHUNK_BYTES", "Access", "Content"]

CHUNK_BYTES: Final = 4 << 20  # of larger ones the arrays made of them are fresh memory each time
PAUSE_S: Final = 0.05  # before a question is asked again; it doubles

log = get_logger()
Piece = tuple[Offset, bytes]


class Access:
    """A client of brokers and stores, on the event loop of this process's blocking clients."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        tls = connection.tls.files() if connection.tls is not None else None
        self.journals = Journals(connection.brokers, token=connection.token, tls=tls)
        self.stores = FragmentStores()

    def run(self, work: Any) -> Any:
        """Run a coroutine over there, and wait for it."""
        return LoopThread.shared().run(work)

    def ask(self, question: Callable[[], Awaitable[Any]]) -> Any:
        """Ask brokers something which changes nothing, again if none can answer just now."""
        return self.run(self.asked(question))

    async def asked(self, question: Callable[[], Awaitable[Any]]) -> Any:
        loop = asyncio.get_running_loop()
        deadline, pause_s = loop.time() + self.connection.timeout_s, PAUSE_S
        while True:
            try:
                return await question()
            except (Unavailable, Indeterminate):
                if loop.time() + pause_s > deadline:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(1.0, 2 * pause_s)

    def close(self) -> None:
        self.run(self._close())

    async def _close(self) -> None:
        await self.journals.close()
        await self.stores.close()

    def __enter__(self) -> "Access":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Content:
    """The content of one journal."""

    def __init__(self, access: Access, journal: str, *, fails_on_loss: bool) -> None:
        self.journal = journal
        self._access = access
        self._fails_on_loss = fails_on_loss
        self._fragments: list[Fragment] | None = None

    def read(self, begin: int, end: int) -> Iterator[Piece]:
        """Yield `[begin, end)` in pieces; where one begins after the end of the one before, bytes are gone."""
        pump: _Pump = self._access.run(_started(self.pieces(begin, end)))
        try:
            while (piece := self._access.run(pump.next())) is not None:
                yield piece
        finally:
            self._access.run(pump.close())

    async def pieces(self, begin: int, end: int) -> AsyncIterator[Piece]:
        """The same, on the loop."""
        at, parts, size, first = begin, list[bytes | memoryview](), 0, begin
        async for offset, data in self._bytes(begin, end):
            if offset != at or size >= CHUNK_BYTES:
                if parts:
                    yield Offset(first), b"".join(parts)
                parts, size, first = [], 0, offset
            if offset > at:
                self._lost(at, offset)
            parts.append(data)
            size += len(data)
            at = offset + len(data)
        if parts:
            yield Offset(first), b"".join(parts)
        if at < end:
            self._lost(at, end)

    def _lost(self, begin: int, end: int) -> None:
        if self._fails_on_loss:
            raise Gone(
                f"bytes [{begin}, {end}) of {self.journal} are gone, and were not read",
                next_step="set failOnDataLoss to false to continue after them",
            )
        log.warning("bytes are gone", journal=self.journal, begin=begin, end=end)

    async def _bytes(self, begin: int, end: int) -> AsyncIterator[tuple[int, Any]]:
        at = begin
        while at < end:
            fragment = await self._stored(at)
            if fragment is not None:
                upto = min(end, fragment.end)
                try:
                    async for data in self._access.stores.read(fragment, Offset(at), Offset(upto)):
                        yield at, data
                        at += len(data)
                    continue
                except (NotFound, StorageError) as error:
                    log.warning("read from brokers instead", journal=self.journal, reason=str(error))
                    self._forget(fragment)
            upto = self._next_stored(at, end)
            async with contextlib.aclosing(self._served(at, upto)) as served:
                async for offset, data in served:
                    yield offset, data
            at = upto  # what brokers jumped over shows in the next offset, or in the end

    async def _served(self, begin: int, end: int) -> AsyncGenerator[tuple[int, Any], None]:
        """Yield bytes from brokers. A broker that does not know all of them yet is waited for."""
        chunks = self._access.journals.read(self.journal, begin, end=end, follow=True)
        timeout_s = self._access.connection.timeout_s
        async with contextlib.aclosing(chunks):  # type: ignore[type-var]
            while True:
                try:
                    async with asyncio.timeout(timeout_s):
                        chunk = await anext(chunks, None)
                except TimeoutError:
                    raise Unavailable(f"no broker had {self.journal} up to {end} within {timeout_s:.0f} s") from None
                if chunk is None:
                    return
                yield chunk.offset, chunk.content

    async def _stored(self, at: int) -> Fragment | None:
        """The stored Fragment which has an offset."""
        if self._fragments is None:
            known = await self._access.asked(lambda: self._access.journals.fragments(self.journal))
            self._fragments = cover(
                [each for each in known.fragments if each.backing_store and can_open(each.backing_store)]
            )
        return next((each for each in self._fragments if each.covers(Offset(at))), None)

    async def boundary(self, offset: int) -> int:
        """The begin of the stored Fragment which has an offset, so of a message too; 0 if there is none."""
        fragment = await self._stored(offset) if offset else None
        return 0 if fragment is None else fragment.begin

    def _forget(self, gone: Fragment) -> None:
        assert self._fragments is not None
        self._fragments = [each for each in self._fragments if each is not gone]

    def _next_stored(self, at: int, end: int) -> int:
        """Return where the next stored Fragment begins, or the end."""
        assert self._fragments is not None
        return min([end, *(each.begin for each in self._fragments if each.begin > at)])


class _Pump:
    """Reads one piece ahead."""

    def __init__(self, pieces: AsyncIterator[Piece]) -> None:
        self._queue: asyncio.Queue[Piece | BaseException | None] = asyncio.Queue(1)
        self._task = asyncio.create_task(self._run(pieces), name="reads ahead")

    async def _run(self, pieces: Any) -> None:
        try:
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    await self._queue.put(piece)
            await self._queue.put(None)
        except Exception as error:
            await self._queue.put(error)

    async def next(self) -> Piece | None:
        found = await self._queue.get()
        if isinstance(found, BaseException):
            raise found
        return found

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def _started(pieces: AsyncIterator[Piece]) -> _Pump:
    return _Pump(pieces)
