"""One journal by its name, without `await`: the methods are those of `named_journal.py`."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Self

import pandas
import polars
import pyarrow

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.client.journal_content import Source
from penstock.journals.client.journal_facts import JournalFacts
from penstock.journals.client.journal_outcomes import Appended
from penstock.journals.client.message_reads import MessageList
from penstock.journals.client.messages import Message
from penstock.journals.client.named_journal import AsyncJournal
from penstock.journals.client.publishers import JournalPublisher
from penstock.journals.records.labels import Label, LabelSelector, LabelSet
from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import FragmentSpec
from penstock.messages.framing.framing import Framing
from penstock.plumbing.files.tables import ArrowTable
from penstock.plumbing.process.blocking import Blocking

__all__ = ["Journal"]

class Journal(Blocking[AsyncJournal]):
    """A journal by its name: publish messages, read them, append bytes."""

    def __init__(self, journals: BlockingJournals, name: str) -> None: ...
    def publisher(self, framing: Framing = ..., *, patience: float = ...) -> JournalPublisher:
        """Return a publisher of messages to it, for a `with`.

        While no broker takes messages they are sent again for `patience` seconds; then they fail with the reason."""

    def read(
        self, offset: int = 0, *, end: int | None = None, framing: Framing = ..., follow: bool = False
    ) -> Iterator[Message]:
        """Yield its committed messages from an offset on; with `follow`, also new ones as they come."""

    def __repr__(self) -> str: ...
    def create(
        self,
        *,
        replication: int | None = None,
        least: int = 0,
        fsync: bool = False,
        fragment: FragmentSpec = ...,
        labels: LabelSet | Mapping[str, str] = ...,
        max_append_rate: int = 0,
        exists_ok: bool = False,
    ) -> Self:
        """Make it, as a `JournalSpec` with these settings. `PreconditionFailed` if it exists, unless `exists_ok`.

        Without a `replication` three brokers hold each append. Where fewer brokers run, all of them hold it on disk
        before it is acknowledged. `least`: appends need this number of them, and the others may be away; 0 for all."""

    def info(self) -> JournalFacts:
        """Return its settings and state: offsets, brokers, primary."""

    def delete(self, *, missing_ok: bool = False) -> None:
        """Delete it. Its stored fragments stay in the store. `NotFound` if it does not exist, unless `missing_ok`."""

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

    def publish_table(self, table: ArrowTable, *, framing: Framing = ..., timeout: float = 60.0) -> int:
        """Publish each row of a DataFrame or an Arrow table as a message: all of them, or none. Returns their number.

        Readers of committed messages see the rows when all are on every replica. With the framing `ArrowBatches` a
        message is a batch of rows."""

    def read_uncommitted(
        self, offset: int = 0, *, end: int | None = None, framing: Framing = ..., follow: bool = False
    ) -> Iterator[Message]:
        """Yield every message in the journal's order: also pending ones, rolled-back ones and duplicates."""

    def tail(self, count: int = 10, *, framing: Framing = ...) -> MessageList:
        """Return its last committed messages. It reads only the end of the journal."""

    def since(self, time: datetime | float, *, framing: Framing = ..., follow: bool = False) -> Iterator[Message]:
        """Yield the committed messages that were published at a time (or unix time) or later.

        It skips fragments that were stored before. Messages without a time are left out."""

    def to_arrow(
        self, offset: int = 0, *, end: int | None = None, framing: Framing = ..., schema: pyarrow.Schema | None = None
    ) -> pyarrow.Table:
        """Return its committed messages as an Arrow table: a column for each field of their values."""

    def to_polars(
        self, offset: int = 0, *, end: int | None = None, framing: Framing = ..., schema: pyarrow.Schema | None = None
    ) -> polars.DataFrame:
        """Return its committed messages as a DataFrame of Polars."""

    def to_pandas(
        self, offset: int = 0, *, end: int | None = None, framing: Framing = ..., schema: pyarrow.Schema | None = None
    ) -> pandas.DataFrame:
        """Return its committed messages as a DataFrame of pandas."""
