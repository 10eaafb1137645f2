"""A watch of a KeySpace on our own log: a stream of one node, and of another one when that node is silent or behind.

A node shows the entries that it has applied. A node that is frozen, or cut off with its leader, applies none. After two
quiet seconds a watch asks the leader for the present revision, and leaves a node that does not show it.

What always holds:

- A revision is shown whole and once, because a stream begins after the last one that was shown.
- A watch sees everything that was acknowledged before it was opened, compactions included.
"""

import asyncio
from typing import TYPE_CHECKING, Final, Self

from penstock.kernel.errors import AlreadyClosed, KeySpaceForgot, PenstockError, Refused, Unavailable
from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import WatchBatch
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wire.client_stream import ClientStream
from penstock.quorum.records.keyspace import KEYSPACE_QUERY, WatchQuery, decode_answer

if TYPE_CHECKING:
    from penstock.quorum.keyspace.store import QuorumKeySpace

__all__ = ["QuorumWatch"]

QUIET_S: Final = 2.0
RETRY_S: Final = (0.02, 0.5)
log = get_logger()


class QuorumWatch:
    """Shows the changes under a prefix from a revision on."""

    def __init__(self, keyspace: "QuorumKeySpace", prefix: str, start: Revision) -> None:
        self._keyspace = keyspace
        self._query = KEYSPACE_QUERY.encode(WatchQuery(prefix))
        self._shown = Revision(start - 1)  # every change up to here was shown, or not asked for
        self._seen = Revision(0)  # the newest revision of a batch
        self._stream: ClientStream | None = None
        self._address = 0  # of the nodes
        self._failures = 0
        self._is_open = True
        self._waiting: asyncio.Task[object] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        assert self._waiting is None, "only one task may wait for the next batch"
        self._waiting = asyncio.current_task()
        try:
            return await self._next_batch()
        except asyncio.CancelledError:
            self._break_off()
            if not self._is_open and self._waiting is not None and self._waiting.uncancel() == 0:
                raise AlreadyClosed("the KeySpace was closed") from None
            raise
        finally:
            self._waiting = None

    async def __aenter__(self) -> Self:
        self._keyspace.watches[self] = None
        return self

    async def __aexit__(self, *_: object) -> None:
        self._keyspace.watches.pop(self, None)
        self.close()

    def close(self) -> None:
        """End the watch, and the task that waits for it."""
        self._break_off()
        if self._is_open and self._waiting is not None:
            self._waiting.cancel()
        self._is_open = False

    async def _next_batch(self) -> WatchBatch:
        while self._is_open:
            data = await self._next_message()
            if data is None:
                continue
            batch = decode_answer(WatchBatch, data)
            if batch.revision > self._shown:
                self._shown = self._seen = batch.revision
                return batch
        raise AlreadyClosed("the watch is closed")

    async def _next_message(self) -> bytes | None:
        """Return the next message of a node; None if it broke off, or is behind, and another node is asked next."""
        keyspace = self._keyspace
        keyspace.check_open()
        try:
            if self._stream is None:
                addresses = keyspace.log.addresses
                address = addresses[self._address % len(addresses)]
                _, upto = await keyspace.check_not_behind(self._seen)
                self._stream = await keyspace.log.open_watch(address, self._query, self._shown, upto)
            try:
                async with asyncio.timeout(QUIET_S):
                    message = await self._stream.receive()
            except TimeoutError:
                await self._check_node()
                return None
            if message is not None:
                self._failures = 0
                return message.body
            reason = "the node has ended the stream"
        except PenstockError as error:
            keyspace.check_open()
            if isinstance(error, KeySpaceForgot | Refused):
                self._break_off()
                raise
            reason = str(error)
        log.info("watch asks another node", reason=reason, shown=self._shown)
        await self._leave()
        return None

    async def _check_node(self) -> None:
        """Leave a silent node if there is more to show than it shows."""
        newest, _ = await self._keyspace.check_not_behind(self._seen)
        if newest > self._shown:
            raise Unavailable(f"the KeySpace is at revision {newest}, and this node shows no more than {self._shown}")

    async def _leave(self) -> None:
        self._break_off()
        self._address += 1
        self._failures += 1
        await asyncio.sleep(min(RETRY_S[0] * 2 ** min(self._failures - 1, 6), RETRY_S[1]))

    def _break_off(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.cancel()
