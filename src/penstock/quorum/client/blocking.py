"""The client without `await`: the same names, for scripts, notebooks and threads.

    with BlockingQuorumLog(["127.0.0.1:7101"], "main") as log:
        appended = log.append(b"...")
        value = log.read(query)

Calls may come from any thread: see `loop_thread.py`.
"""

import os
from collections.abc import Sequence
from types import TracebackType

from penstock.kernel.errors import AlreadyClosed
from penstock.plumbing.process.blocking import Blocking, blocking
from penstock.plumbing.process.loop_thread import LoopThread
from penstock.plumbing.process.per_process import PerProcess
from penstock.plumbing.wire.tls import Tls
from penstock.quorum.client.quorum import QuorumLog

__all__ = ["BlockingQuorumLog"]


@blocking(QuorumLog, without=("next_seq", "open_watch"))
class BlockingQuorumLog(Blocking[QuorumLog]):
    """One shard of the quorum log, seen by one client: `penstock.aio.QuorumLog`, without `await`."""

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
        self._entered: PerProcess[QuorumLog] = PerProcess(
            lambda: LoopThread.shared().run(self._logs.get().__aenter__())
        )

    @property
    def _async(self) -> QuorumLog:
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
        """Close the connections of this process."""
        made = self._logs.peek()
        if made is not None:
            LoopThread.shared().run(made.close())
