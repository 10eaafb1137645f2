"""One journal by its name, without `await`: the methods are those of `named_journal.py`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Self

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.client.journal_content import Source
from penstock.journals.client.journal_outcomes import Appended
from penstock.journals.client.messages import Message
from penstock.journals.client.named_journal import AsyncJournal
from penstock.journals.client.publishers import JournalPublisher
from penstock.journals.records.labels import Label, LabelSelector, LabelSet
from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import FragmentSpec
from penstock.messages.framing.framing import Framing
from penstock.plumbing.process.blocking import Blocking

__all__ = ["Journal"]

class Journal(Blocking[AsyncJournal]):
    """A journal by its name: publish messages, read them, append bytes."""

    def __init__(self, journals: BlockingJournals, name: str) -> None: ...
    def publisher(self, framing: Framing = ...) -> JournalPublisher:
        """Return a publisher of messages to it, for a `with`."""

    def read(self, offset: int = 0, *, framing: Framing = ..., follow: bool = False) -> Iterator[Message]:
        """Yield its committed messages from an offset on; with `follow`, also new ones as they come."""

    def __repr__(self) -> str: ...
    def create(
        self,
        *,
        replication: int = 1,
        fsync: bool = False,
        fragment: FragmentSpec = ...,
        labels: LabelSet | Mapping[str, str] = ...,
        max_append_rate: int = 0,
        exists_ok: bool = False,
    ) -> Self:
        """Make it, as a `JournalSpec` with these settings. `PreconditionFailed` if it exists, unless `exists_ok`."""

    def append(
        self,
        content: Source,
        *,
        offset: int | None = None,
        check: str | LabelSelector = "",
        union: Iterable[Label] | dict[str, str] = (),
        subtract: Iterable[Label] | dict[str, str] = (),
        txn: Txn | None = None,
        timeout: float = 10.0,
    ) -> Appended:
        """Append bytes, all or none of them; return when they are on every replica.

        `offset`: only if the journal ends there. `check`: only if the registers match; `union` and `subtract` change
        them together with the content. With `txn`, a writer's own number for this append, it takes effect once."""
