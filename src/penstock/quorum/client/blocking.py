"""The client without `await`: the same names, for scripts, notebooks and threads.

    with BlockingQuorumLog(["127.0.0.1:7101"], "main") as log:
        appended = log.append(b"...")
        value = log.read(query)

Calls may come from any thread: see `loop_thread.py`.
"""

import os
from collections.abc import Iterator, Sequence
from types import TracebackType

from penstock.kernel.errors import AlreadyClosed, PenstockError
from penstock.kernel.ids import EntryId, Offset
from penstock.plumbing.process.loop_thread import LoopThread
from penstock.plumbing.process.per_process import PerProcess
from penstock.plumbing.wire.tls import Tls
from penstock.quorum.client.quorum import FIRST, Ack, Appended, QuorumLog
from penstock.quorum.records.api import ReadResult, ShardStatus
from penstock.quorum.records.entry import Txn
from penstock.quorum.records.resolution import Resolution

__all__ = ["BlockingQuorumLog"]


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
        """After a fork the child is a client of its own; it is refused if `client_id` is set, which names one only."""
        self._client_id = client_id
        self._pid = os.getpid()
        self._logs = PerProcess(
            lambda: QuorumLog(addresses, shard, client_id=client_id, token=token, tls=tls, window_bytes=window_bytes)
        )
        self._logs.get()  # which refuses what cannot be an address
        self._entered: PerProcess[QuorumLog] = PerProcess(lambda: self._thread.run(self._logs.get().__aenter__()))

    @property
    def _thread(self) -> LoopThread:
        return LoopThread.shared()

    @property
    def _log(self) -> QuorumLog:
        if self._client_id is not None and self._pid != os.getpid():
            raise AlreadyClosed(f"the parent of this process appends as {self._client_id}; make a client in this one")
        return self._entered.get()

    def __enter__(self) -> "BlockingQuorumLog":
        self._entered.get()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        made = self._logs.peek()
        if made is not None:
            self._thread.run(made.close())

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
        """Append a transaction.

        Returns when it is committed (sync), or durable on the leader after every sync one before it (async). A time-out
        raises `Indeterminate`; with `roll_back`, the leader first tries to make that a definite `Refused`. To repeat a
        transaction whose fate is unknown, give its `seq` again: it takes effect once, and the answer is about the
        transaction, whichever copy of it the log took.
        """
        return self._thread.run(
            self._log.append(ops, sync=sync, ack=ack, timeout=timeout, roll_back=roll_back, seq=seq)
        )

    def read(
        self, query: bytes, *, linearizable: bool = True, after: EntryId | None = None, timeout: float = 5.0
    ) -> ReadResult:
        """Ask the state machine. Not linearizable: what the asked node has applied, at least up to `after`."""
        return self._thread.run(self._log.read(query, linearizable=linearizable, after=after, timeout=timeout))

    def resolve(self, entry: EntryId, *, timeout: float = 5.0) -> Resolution:
        """Return the outcome of an entry. PENDING only if it is still open after `timeout`."""
        return self._thread.run(self._log.resolve(entry, timeout=timeout))

    def status(self, *, timeout: float = 2.0) -> dict[str, list[tuple[ShardStatus, str]] | PenstockError]:
        """Return every node's status of its replicas, by address; with the reason in words why appends wait, if they
        do.
        """
        return self._thread.run(self._log.status(timeout=timeout))

    def subscribe(self, first: Offset = FIRST, *, follow: bool = True) -> Iterator[tuple[Offset, Txn]]:
        """Committed transactions from an offset on, each once, through restarts of nodes and elections.

        Without `follow` it ends after the last transaction that was committed at the call. If the log begins later than
        `first`, the subscription begins there; with `is_gapless` it raises `Compacted`. After its first transaction it
        leaves none out: a subscriber that the log has overtaken gets `Compacted`. Leaving the loop early ends the
        subscription.
        """
        return self._thread.iterate(self._log.subscribe(first, follow=follow))
