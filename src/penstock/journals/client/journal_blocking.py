"""The client of journals without `await`: the same names, for scripts, notebooks and threads.

with BlockingJournals(["127.0.0.1:7201"]) as journals:
    journals.append("shop/orders", b"...")
    for chunk in journals.read("shop/orders"):
        print(chunk.offset, chunk.content)

with BlockingAppendService(journals) as service:
    service.append("shop/orders", b"...")       # many threads: many small appends become few large ones
"""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from penstock.journals.client.append_service import ATTEMPT_S, BATCH_BYTES, AppendService
from penstock.journals.client.journal import Journals
from penstock.journals.client.journal_content import Buffer
from penstock.kernel.errors import AlreadyClosed
from penstock.plumbing.process.blocking import Blocking, blocking
from penstock.plumbing.process.loop_thread import LoopThread
from penstock.plumbing.process.per_process import PerProcess
from penstock.plumbing.wire.tls import Tls

__all__ = ["BlockingAppendService", "BlockingJournals"]


@blocking(Journals)
class BlockingJournals(Blocking[Journals]):
    """`Journals`, without `await`. After a fork the child has a client of its own."""

    def __init__(
        self, addresses: Sequence[str], *, token: str | None = None, tls: Tls | None = None, direct: bool = False
    ) -> None:
        self._journals = PerProcess(lambda: Journals(addresses, token=token, tls=tls, direct=direct))
        self._journals.get()  # which refuses what cannot be an address

    @property
    def _async(self) -> Journals:
        return self._journals.get()

    @property
    def journals(self) -> Journals:
        """The asynchronous client of this process."""
        return self._journals.get()

    def __enter__(self) -> "BlockingJournals":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections of this process."""
        made = self._journals.peek()
        if made is not None:
            LoopThread.shared().run(made.close())


@blocking(AppendService, without=("wait_for_room", "sealed", "content", "done"))
class BlockingAppendService(Blocking[AppendService]):
    """`AppendService`, without `await`."""

    def __init__(
        self,
        journals: BlockingJournals,
        *,
        writer: str | None = None,
        batch_bytes: int = BATCH_BYTES,
        memory_bytes_max: int = 16 << 20,
        spool_bytes_max: int = 1 << 30,
        spool_folder: Path | None = None,
        attempt_s: float = ATTEMPT_S,
        patience_s: float = math.inf,
    ) -> None:
        """After a fork the child has a service of its own; it is refused if `writer` is set, which names one only."""
        self._services = PerProcess(
            lambda: AppendService(
                journals.journals,
                writer=writer,
                batch_bytes=batch_bytes,
                memory_bytes_max=memory_bytes_max,
                spool_bytes_max=spool_bytes_max,
                spool_folder=spool_folder,
                attempt_s=attempt_s,
                patience_s=patience_s,
            )
        )
        self._services.get()
        self._writer = writer
        self._pid = os.getpid()

    @property
    def _async(self) -> AppendService:
        if self._writer is not None and self._pid != os.getpid():
            raise AlreadyClosed(f"the parent of this process appends as {self._writer}; make a service in this one")
        return self._services.get()

    def __enter__(self) -> "BlockingAppendService":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._services.peek() is not None:
                self.flush()
        finally:
            self.close()

    def put(self, journal: str, content: Buffer) -> None:
        """Append later. What became of it `flush` does not tell: use `append` where that matters."""
        LoopThread.shared().run(self._put(journal, content))

    def close(self) -> None:
        """Stop. Remaining appends fail."""
        made = self._services.peek()
        if made is not None:
            LoopThread.shared().run(made.close())

    async def _put(self, journal: str, content: Buffer) -> None:
        self._async.put(journal, content)
