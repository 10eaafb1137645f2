"""A watch on etcd: one stream, reopened at its position whenever it breaks.

Three things etcd does not do by itself. It drops the removals of the very revision a compaction names when a watch
starts there (etcd issues 18089 and 19179), so we always ask from one revision earlier, which it then refuses as
compacted. It cuts large answers into fragments anywhere, so the last revision is held back until it is whole. And it
says nothing when it was set back to an older state, so each new stream is checked not to be older than the changes this
watch has shown.

Nothing runs in the background: a batch is read from the stream when it is asked for, and gRPC's flow control holds the
server back meanwhile.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Self

import grpc

from penstock.kernel.errors import AlreadyClosed, Compacted, KeySpaceForgot, Unavailable
from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import NO_REVISION, KeyChange, WatchBatch
from penstock.keyspace.shell.etcd.failures import is_transient, meaning
from penstock.keyspace.shell.etcd.messages import CreateWatch, WatchAnswer, read_watch
from penstock.plumbing.process.logs import get_logger

if TYPE_CHECKING:
    from penstock.keyspace.shell.etcd.store import EtcdKeySpace

__all__ = ["EtcdWatch"]

log = get_logger()


class EtcdWatch:
    """Shows the changes under a prefix from a revision on."""

    def __init__(self, keyspace: "EtcdKeySpace", prefix: str, start: Revision) -> None:
        self._keyspace = keyspace
        self._prefix = prefix
        self._shown = Revision(start - 1)  # every change up to here was shown, or not asked for
        self._seen = NO_REVISION  # the newest revision etcd has told us of
        self._held: list[KeyChange] = []  # of a revision which may not be whole yet
        self._call: Any = None
        self._is_open = True
        self._waiting: asyncio.Task[Any] | None = None
        self._backoff_s = 0.0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        assert self._waiting is None, "only one task may wait for the next batch"
        self._waiting = asyncio.current_task()
        try:
            return await self._next_batch()
        except asyncio.CancelledError:
            self._break_off()  # gRPC has cancelled the call along with us
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
        """End the watch, and the task that waits for it: a cancelled call alone would not always wake it."""
        self._break_off()
        if self._is_open and self._waiting is not None:
            self._waiting.cancel()
        self._is_open = False

    async def _next_batch(self) -> WatchBatch:
        while self._is_open:
            answer = await self._next_answer()
            batch = None if answer is None else self._take(answer)
            if batch is not None:
                return batch
        raise AlreadyClosed("the watch is closed")

    async def _next_answer(self) -> WatchAnswer | None:
        """Return the next message of the stream; None if it broke, and must be reopened."""
        try:
            if self._call is None:
                await self._open()
            data = await self._call.read()
            if data is not grpc.aio.EOF:
                self._backoff_s = 0.0
                return read_watch(data)
            reason = "etcd ended the stream"
        except grpc.aio.AioRpcError as error:
            self._break_off()
            if not is_transient(error):
                raise meaning(error, changes=False) from None
            reason = f"{error.code().name} {error.details()}"
        except Unavailable as error:
            reason = str(error)
        log.info("watch reconnects", prefix=self._prefix, shown=self._shown, reason=reason)
        self._break_off()
        await self._pause()
        return None

    async def _open(self) -> None:
        self._held = []
        self._call = await self._keyspace.open_watch()
        await self._call.write(CreateWatch(self._prefix, Revision(max(1, self._shown))).encode())

    def _break_off(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    async def _pause(self) -> None:
        options = self._keyspace.options
        self._keyspace.check_open()
        await asyncio.sleep(self._backoff_s)
        self._backoff_s = min(max(2 * self._backoff_s, options.backoff_ms / 1000), options.backoff_ms_max / 1000)

    def _take(self, answer: WatchAnswer) -> WatchBatch | None:
        """Return the changes that may be shown after this message."""
        self._keyspace.check_cluster(answer.header)
        if answer.is_created and answer.header.revision < self._seen:
            raise KeySpaceForgot(f"etcd is at revision {answer.header.revision}, and was at {self._seen}")
        self._seen = max(self._seen, answer.header.revision)
        if answer.compacted > NO_REVISION:
            self._break_off()
            raise Compacted(
                f"changes from revision {self._shown + 1} on are gone: compacted up to {answer.compacted}",
                compacted=answer.compacted,
            )
        if answer.is_cancelled:
            log.info("watch cancelled", prefix=self._prefix, reason=answer.cancel_reason)
            self._break_off()
            return None
        if answer.is_created:
            return None
        if answer.changes:
            return self._whole_revisions(answer)
        return self._progress(answer.header.revision)

    def _whole_revisions(self, answer: WatchAnswer) -> WatchBatch | None:
        changes = self._held + answer.changes
        last = changes[-1].revision
        whole = [change for change in changes if change.revision < last] if answer.has_more else changes
        self._held = [change for change in changes if change.revision == last] if answer.has_more else []
        # Asked for from one revision earlier: changes that were shown come again.
        new = sorted(
            (change for change in whole if change.revision > self._shown),
            key=lambda change: (change.revision, change.key),
        )
        if not new:
            return None
        self._shown = new[-1].revision
        return WatchBatch(self._shown, tuple(new))

    def _progress(self, revision: Revision) -> WatchBatch | None:
        if revision <= self._shown:
            return None
        self._shown = revision
        return WatchBatch(revision)
