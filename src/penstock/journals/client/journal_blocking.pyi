"""The client of journals without `await`: the same names, for scripts, notebooks and threads.

with BlockingJournals(["127.0.0.1:7201"]) as journals:
    journals.append("shop/orders", b"...")
    for chunk in journals.read("shop/orders"):
        print(chunk.offset, chunk.content)

with BlockingAppendService(journals) as service:
    service.append("shop/orders", b"...")       # many threads: many small appends become few large ones
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

from penstock.journals.client.append_service import AppendService
from penstock.journals.client.journal import Explanations, Infos, Journals
from penstock.journals.client.journal_content import Buffer, Source
from penstock.journals.client.journal_outcomes import Appended
from penstock.journals.client.journal_reads import Chunk
from penstock.journals.records.api import Resolution
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.labels import Label, LabelSelector
from penstock.journals.records.protocol import Change, Fragments, ReadHeader
from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.ids import Offset, Revision
from penstock.plumbing.process.blocking import Blocking
from penstock.plumbing.wire.tls import Tls

__all__ = ["BlockingAppendService", "BlockingJournals"]

class BlockingJournals(Blocking[Journals]):
    """`Journals`, without `await`. After a fork the child has a client of its own."""

    def __init__(
        self, addresses: Sequence[str], *, token: str | None = None, tls: Tls | None = None, direct: bool = False
    ) -> None: ...
    @property
    def journals(self) -> BlockingJournals:
        """The asynchronous client of this process."""

    def __enter__(self) -> BlockingJournals: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def close(self) -> None:
        """Close the connections of this process."""

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
        append, it takes effect once however often it is sent."""

    def read(
        self,
        journal: str,
        offset: int = ...,
        *,
        end: int = ...,
        follow: bool = False,
        begin_mod_time: int = 0,
        address: str | None = None,
    ) -> Iterator[Chunk]:
        """Content from an offset on; -1 is where the journal ends now. Any replica serves it.

        It ends at `end`, or at the present end of the journal; with `follow` it continues as more is appended.
        `begin_mod_time` skips fragments which were stored before that unix time. With an `address` only that broker is
        asked. A client reads its own appends: if a replica has not learned of their commit yet, the read waits."""

    def stat(self, journal: str, offset: int = ..., *, address: str | None = None) -> ReadHeader:
        """Return the header that a read at an offset would begin with: the Fragment, and how far the journal
        has come."""

    def list(self, selector: str | LabelSelector = "", *, timeout: float = 10.0) -> Infos:
        """The journals which fit a selector, like `name:prefix=shop/, region in (eu, us)`."""

    def count_brokers(self) -> int:
        """Return how many brokers run; 0 if the asked broker is of an older release, which does not say."""

    def watch(self, selector: str | LabelSelector = "") -> Iterator[Infos]:
        """The same, and again after every change."""

    def apply(self, changes: Sequence[Change], *, timeout: float = 10.0) -> Revision:
        """Put or delete specs: all of them, or none."""

    def create(self, *specs: JournalSpec) -> Revision:
        """Create journals that do not exist yet."""

    def fragments(self, journal: str, *, timeout: float = 10.0) -> Fragments:
        """The fragments of a journal, as one of its brokers knows them. What this client has appended is among them."""

    def prune(self, journal: str, *, timeout: float = 60.0) -> Fragments:
        """Delete the fragments that retention allows to go, or that larger ones cover; return them."""

    def resolve(self, journal: str, epoch: PipelineEpoch, begin: int, end: int, *, timeout: float = 10.0) -> Resolution:
        """Return the outcome of an append whose error said unknown. PENDING only if it is open after `timeout`."""

    def reset_head(self, journal: str, *, offset: int | None = None, timeout: float = 30.0) -> Offset:
        """Reopen a journal whose last bytes are lost for good, above every earlier offset.

        `offset` says where, above everything that may have been written."""

    def explain(self, journal: str, *, timeout: float = 5.0) -> Explanations:
        """Explain the journal's state at each of its brokers, in words."""

class BlockingAppendService(Blocking[AppendService]):
    """`AppendService`, without `await`."""

    def __init__(
        self,
        journals: BlockingJournals,
        *,
        writer: str | None = None,
        batch_bytes: int = ...,
        memory_bytes_max: int = ...,
        spool_bytes_max: int = ...,
        spool_folder: Path | None = None,
        attempt_s: float = ...,
        patience_s: float = ...,
    ) -> None:
        """After a fork the child has a service of its own; it is refused if `writer` is set, which names one only."""

    def __enter__(self) -> BlockingAppendService: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def put(self, journal: str, content: Buffer) -> None:
        """Append later. What became of it `flush` does not tell: use `append` where that matters."""

    def close(self) -> None:
        """Stop. Remaining appends fail."""

    def append(self, journal: str, content: Buffer) -> Appended:
        """Append; return when it is on every replica. Waits for room first, if too much is on its way."""

    @property
    def is_full(self) -> bool: ...
    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that are not appended yet."""

    def flush(self) -> None:
        """Wait until everything which was put is appended, or refused."""
