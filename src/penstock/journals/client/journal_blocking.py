"""The client of journals without `await`: the same names, for scripts, notebooks and threads.

with BlockingJournals(["127.0.0.1:7201"]) as journals:
    journals.append("shop/orders", b"...")
    for chunk in journals.read("shop/orders"):
        print(chunk.offset, chunk.content)

with BlockingAppendService(journals) as service:
    service.append("shop/orders", b"...")       # many threads: many small appends become few large ones
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

from penstock.journals.client.append_service import AppendService
from penstock.journals.client.journal import START, Change, Chunk, Explanations, Infos, Journals
from penstock.journals.client.journal_content import Buffer, Source
from penstock.journals.client.journal_outcomes import Appended
from penstock.journals.records.api import Resolution
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.labels import Label, LabelSelector
from penstock.journals.records.protocol import Fragments, ReadHeader
from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import AlreadyClosed
from penstock.kernel.ids import Offset, Revision
from penstock.plumbing.process.loop_thread import LoopThread
from penstock.plumbing.process.per_process import PerProcess
from penstock.plumbing.wire.tls import Tls

__all__ = ["BlockingAppendService", "BlockingJournals"]


class BlockingJournals:
    """`Journals`, without `await`."""

    def __init__(
        self, addresses: Sequence[str], *, token: str | None = None, tls: Tls | None = None, direct: bool = False
    ) -> None:
        self._journals = PerProcess(lambda: Journals(addresses, token=token, tls=tls, direct=direct))
        self._journals.get()  # which refuses what cannot be an address

    @property
    def journals(self) -> Journals:
        """The asynchronous client of this process."""
        return self._journals.get()

    @property
    def _thread(self) -> LoopThread:
        return LoopThread.shared()

    def __enter__(self) -> "BlockingJournals":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        made = self._journals.peek()
        if made is not None:
            self._thread.run(made.close())

    def append(
        self,
        journal: str,
        content: Source,
        *,
        offset: Offset | None = None,
        check: str | LabelSelector = "",
        union: Iterable[Label] | dict[str, str] = (),
        subtract: Iterable[Label] | dict[str, str] = (),
        txn: Txn | None = None,
        timeout: float = 10.0,
    ) -> Appended:
        """Append all of the content, or nothing; return when it is on every replica.

        `content` may be a buffer, or a (async) iterable of buffers of any length together: it is streamed, and nothing
        of it is visible before its end. `offset`: only if the journal ends there. `check`: only if the registers
        match; `union` and `subtract` change them together with the content. With `txn`, a writer's own number for this
        append, it takes effect once however often it is sent.
        """
        return self._thread.run(
            self.journals.append(
                journal, content, offset=offset, check=check, union=union, subtract=subtract, txn=txn, timeout=timeout
            )
        )

    def read(
        self,
        journal: str,
        offset: int = START,
        *,
        end: int = START,
        follow: bool = False,
        begin_mod_time: int = 0,
        address: str | None = None,
    ) -> Iterator[Chunk]:
        """Content from an offset on; -1 is where the journal ends now. Any replica serves it.

        It ends at `end`, or at the present end of the journal; with `follow` it continues as more is appended.
        `begin_mod_time` skips fragments which were stored before that unix time. With an `address` only that broker is
        asked. A client reads its own appends: if a replica has not learned of their commit yet, the read waits. Leaving
        the loop early ends the read.
        """
        chunks = self.journals.read(
            journal, offset, end=end, follow=follow, begin_mod_time=begin_mod_time, address=address
        )
        return self._thread.iterate(chunks)

    def watch(self, selector: str | LabelSelector = "") -> Iterator[Infos]:
        """The same, and again after every change."""
        return self._thread.iterate(self.journals.watch(selector))

    def stat(self, journal: str, offset: int = -1) -> ReadHeader:
        """Return the header that a read at an offset would begin with: the Fragment, and how far the journal
        has come.
        """
        return self._thread.run(self.journals.stat(journal, offset))

    def list(self, selector: str | LabelSelector = "") -> Infos:
        """The journals which fit a selector, like `name:prefix=shop/, region in (eu, us)`."""
        return self._thread.run(self.journals.list(selector))

    def apply(self, changes: Sequence[Change]) -> Revision:
        """Put or delete specs: all of them, or none."""
        return self._thread.run(self.journals.apply(changes))

    def create(self, *specs: JournalSpec) -> Revision:
        """Create journals that do not exist yet."""
        return self._thread.run(self.journals.create(*specs))

    def fragments(self, journal: str) -> Fragments:
        """The fragments of a journal, as one of its brokers knows them. What this client has appended is among them."""
        return self._thread.run(self.journals.fragments(journal))

    def resolve(self, journal: str, epoch: PipelineEpoch, begin: int, end: int, *, timeout: float = 10.0) -> Resolution:
        """Return the outcome of an append whose error said unknown. PENDING only if it is open after `timeout`."""
        return self._thread.run(self.journals.resolve(journal, epoch, begin, end, timeout=timeout))

    def explain(self, journal: str) -> Explanations:
        """Explain the journal's state at each of its brokers, in words."""
        return self._thread.run(self.journals.explain(journal))


class BlockingAppendService:
    """`AppendService`, without `await`."""

    def __init__(self, journals: BlockingJournals, **settings: Any) -> None:
        """After a fork the child has a service of its own; it is refused if `writer` is set, which names one only."""
        self._services = PerProcess(lambda: AppendService(journals.journals, **settings))
        self._services.get()
        self._writer: str | None = settings.get("writer")
        self._pid = os.getpid()

    @property
    def _service(self) -> AppendService:
        if self._writer is not None and self._pid != os.getpid():
            raise AlreadyClosed(f"the parent of this process appends as {self._writer}; make a service in this one")
        return self._services.get()

    @property
    def _thread(self) -> LoopThread:
        return LoopThread.shared()

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

    def append(self, journal: str, content: Buffer) -> Appended:
        """Append; return when it is on every replica. Waits for room first, if too much is on its way."""
        return self._thread.run(self._service.append(journal, content))

    def put(self, journal: str, content: Buffer) -> None:
        """Append later. What became of it `flush` does not tell: use `append` where that matters."""
        self._thread.run(self._put(journal, content))

    def flush(self) -> None:
        """Wait until everything which was put is appended, or refused."""
        self._thread.run(self._service.flush())

    def close(self) -> None:
        made = self._services.peek()
        if made is not None:
            self._thread.run(made.close())

    async def _put(self, journal: str, content: Buffer) -> None:
        self._service.put(journal, content)
