"""The client without `await`: the same names, for scripts, notebooks and threads.

    with BlockingQuorumLog(["127.0.0.1:7101"], "main") as log:
        appended = log.append(b"...")
        value = log.read(query)

One background thread runs the event loop of all blocking clients of a process. Calls may come from any thread; Ctrl-C
ends the call, and what it had asked for is cancelled.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from penstock.base.errors import AlreadyClosed, PenstockError
from penstock.base.ids import EntryId, Offset
from penstock.client.quorum import FIRST, Ack, Appended, QuorumLog
from penstock.quorum.api import ReadResult, ShardStatus
from penstock.quorum.entry import Txn
from penstock.quorum.resolve import Resolution
from penstock.runtime.wire.tls import Tls

__all__ = ["BlockingQuorumLog", "LoopThread"]

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own, made when it is first needed."""

    _lock = threading.Lock()
    _shared: "LoopThread | None" = None

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="penstock client", daemon=True)
        self._thread.start()

    @classmethod
    def shared(cls) -> "LoopThread":
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls()
            return cls._shared

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine over there, and wait for it here."""
        if threading.current_thread() is self._thread:
            work.close()
            raise AlreadyClosed("a blocking call from inside the event loop would wait for itself: use await there")
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C: nobody waits any more
            raise

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine over there, and do not wait: also from over there, where nothing can."""
        asyncio.run_coroutine_threadsafe(work, self._loop)


class BlockingQuorumLog:
    """One shard, seen by one client: `QuorumLog`, without `await`."""

    def __init__(
        self,
        addresses: Sequence[str],
        shard: str = "main",
        *,
        client_id: str | None = None,
        token: str | None = None,
        tls: Tls | None = None,
        window_bytes: int = 8 << 20,
    ) -> None:
        self._log = QuorumLog(addresses, shard, client_id=client_id, token=token, tls=tls, window_bytes=window_bytes)
        self._thread = LoopThread.shared()

    def __enter__(self) -> "BlockingQuorumLog":
        self._thread.run(self._log.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._thread.run(self._log.close())

    def append(
        self,
        ops: bytes,
        *,
        sync: bool = True,
        ack: Ack = "majority",
        timeout: float = 5.0,
        roll_back: bool = False,
        seq: int | None = None,
    ) -> Appended:
        """As `QuorumLog.append`."""
        return self._thread.run(
            self._log.append(ops, sync=sync, ack=ack, timeout=timeout, roll_back=roll_back, seq=seq)
        )

    def read(
        self, query: bytes, *, linearizable: bool = True, after: EntryId | None = None, timeout: float = 5.0
    ) -> ReadResult:
        """As `QuorumLog.read`."""
        return self._thread.run(self._log.read(query, linearizable=linearizable, after=after, timeout=timeout))

    def resolve(self, entry: EntryId, *, timeout: float = 5.0) -> Resolution:
        """As `QuorumLog.resolve`."""
        return self._thread.run(self._log.resolve(entry, timeout=timeout))

    def status(self, *, timeout: float = 2.0) -> dict[str, list[tuple[ShardStatus, str]] | PenstockError]:
        """As `QuorumLog.status`."""
        return self._thread.run(self._log.status(timeout=timeout))

    def subscribe(self, first: Offset = FIRST, *, follow: bool = True) -> Iterator[tuple[Offset, Txn]]:
        """As `QuorumLog.subscribe`. Leaving the loop early ends the subscription."""
        entries = self._log.subscribe(first, follow=follow)
        try:
            while True:
                try:
                    yield self._thread.run(_next(entries))
                except StopAsyncIteration:
                    return
        finally:
            self._thread.run(_close(entries))


async def _next(entries: AsyncIterator[tuple[Offset, Txn]]) -> tuple[Offset, Txn]:
    return await anext(entries)


async def _close(entries: Any) -> None:
    await entries.aclose()
