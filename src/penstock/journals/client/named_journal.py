"""One journal by its name, as `stock.journal("shop/orders")` gives it: publish messages, read them, append bytes.

    with stock.journal("shop/orders").publisher() as publish:
        publish({"sku": "kettle", "quantity": 2})               # returns at once; at the end all are on every replica
    for message in stock.journal("shop/orders").read():         # the committed ones, each once
        print(message.published_at, message.value)

`AsyncJournal` has the names with `await`, `Journal` (in `named_blocking.py`) those without. What always holds: messages
of one publisher are in the order in which they were published, through outages of the brokers; leaving its block, or
`flush`, raises the first error.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Self

from penstock.journals.client.append_service import PATIENCE_S
from penstock.journals.client.journal import Journals
from penstock.journals.client.journal_content import Source
from penstock.journals.client.journal_facts import JournalFacts, facts_of
from penstock.journals.client.journal_outcomes import Appended
from penstock.journals.client.message_reads import MessageList, read_since, read_table, read_tail, read_uncommitted
from penstock.journals.client.messages import JSON, Message, committed_batches, read_committed
from penstock.journals.client.publishers import AsyncJournalPublisher
from penstock.journals.client.transactions.pending import publish_all, values_of
from penstock.journals.records.labels import Label, LabelSelector, LabelSet
from penstock.journals.records.protocol import Change
from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import NotFound, PreconditionFailed
from penstock.kernel.ids import Offset
from penstock.messages.framing.framing import Framing
from penstock.plumbing.files.tables import ArrowTable, to_arrow, to_pandas, to_polars

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["AsyncJournal", "safe_copies"]


class AsyncJournal:
    """A journal, for asyncio."""

    def __init__(self, journals: Journals, name: str) -> None:
        self.name = name
        self._journals = journals

    def __repr__(self) -> str:
        return f"journal {self.name}"

    async def create(
        self,
        *,
        replication: int | None = None,
        least: int = 0,
        fsync: bool = False,
        fragment: FragmentSpec = FragmentSpec(),  # noqa: B008 (frozen)
        labels: LabelSet | Mapping[str, str] = LabelSet(),  # noqa: B008 (frozen)
        max_append_rate: int = 0,
        exists_ok: bool = False,
    ) -> Self:
        """Make it, as a `JournalSpec` with these settings. `PreconditionFailed` if it exists, unless `exists_ok`.

        Without a `replication` three brokers hold each append. Where fewer brokers run, all of them hold it on disk
        before it is acknowledged. `least`: appends need this number of them, and the others may be away; 0 for all.
        """
        if replication is None:
            replication, on_disk = safe_copies(await self._journals.count_brokers())
            fsync = fsync or on_disk
        spec = JournalSpec(
            name=self.name,
            replication=replication,
            least=least,
            fsync=fsync,
            fragment=fragment,
            labels=labels if isinstance(labels, LabelSet) else LabelSet.of(labels),
            max_append_rate=max_append_rate,
        )
        try:
            await self._journals.create(spec)
        except PreconditionFailed:
            named = LabelSelector(LabelSet.of({"name": self.name}))
            if not exists_ok or not await self._journals.list(named):
                raise
        return self

    async def info(self) -> JournalFacts:
        """Return its settings and state: offsets, brokers, primary."""
        return await facts_of(self._journals, self.name)

    async def delete(self, *, missing_ok: bool = False) -> None:
        """Delete it. Its stored fragments stay in the store. `NotFound` if it does not exist, unless `missing_ok`."""
        try:
            await self._journals.apply([Change(delete=self.name)])
        except NotFound:
            if not missing_ok:
                raise

    async def append(
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
        them together with the content. With `txn`, a writer's own number for this append, it takes effect once.
        """
        at = None if offset is None else Offset(offset)
        return await self._journals.append(
            self.name, content, offset=at, check=check, union=union, subtract=subtract, txn=txn, timeout=timeout
        )

    def publisher(self, framing: Framing = JSON, *, patience: float = PATIENCE_S) -> AsyncJournalPublisher:
        """Return a publisher of messages to it, for an `async with`.

        While no broker takes messages they are sent again for `patience` seconds; then they fail with the reason.
        """
        return AsyncJournalPublisher(self._journals, self.name, framing, patience)

    async def publish_table(self, table: ArrowTable, *, framing: Framing = JSON, timeout: float = 60.0) -> int:
        """Publish each row of a DataFrame or an Arrow table as a message: all of them, or none. Returns their number.

        Readers of committed messages see the rows when all are on every replica. With the framing `ArrowBatches` a
        message is a batch of rows.
        """
        values = values_of(await asyncio.to_thread(to_arrow, table), framing)
        await publish_all(self._journals, self.name, values, framing, timeout)
        return len(values)

    def read(
        self, offset: int = 0, *, end: int | None = None, framing: Framing = JSON, follow: bool = False
    ) -> AsyncIterator[Message]:
        """Yield its committed messages from an offset on; with `follow`, also new ones as they come."""
        return read_committed(self._journals, self.name, offset, end=end or 0, framing=framing, follow=follow)

    def read_batches(
        self, offset: int = 0, *, end: int | None = None, framing: Framing = JSON, follow: bool = False
    ) -> AsyncIterator[list[Message]]:
        """Yield its committed messages as `read` does, in lists as they came."""
        return committed_batches(self._journals, self.name, offset, end=end or 0, framing=framing, follow=follow)

    def read_uncommitted(
        self, offset: int = 0, *, end: int | None = None, framing: Framing = JSON, follow: bool = False
    ) -> AsyncIterator[Message]:
        """Yield every message in the journal's order: also pending ones, rolled-back ones and duplicates."""
        return read_uncommitted(self._journals, self.name, offset, end or 0, framing, follow=follow)

    async def tail(self, count: int = 10, *, framing: Framing = JSON) -> MessageList:
        """Return its last committed messages. It reads only the end of the journal."""
        return await read_tail(self._journals, self.name, count, framing)

    def since(self, time: datetime | float, *, framing: Framing = JSON, follow: bool = False) -> AsyncIterator[Message]:
        """Yield the committed messages that were published at a time (or unix time) or later.

        It skips fragments that were stored before. Messages without a time are left out.
        """
        return read_since(self._journals, self.name, time, framing, follow=follow)

    async def to_arrow(
        self,
        offset: int = 0,
        *,
        end: int | None = None,
        framing: Framing = JSON,
        schema: "pyarrow.Schema | None" = None,
    ) -> "pyarrow.Table":
        """Return its committed messages as an Arrow table: a column for each field of their values."""
        return await read_table(self._journals, self.name, offset, end or 0, framing, schema)

    async def to_polars(
        self,
        offset: int = 0,
        *,
        end: int | None = None,
        framing: Framing = JSON,
        schema: "pyarrow.Schema | None" = None,
    ) -> "polars.DataFrame":
        """Return its committed messages as a DataFrame of Polars."""
        return to_polars(await self.to_arrow(offset, end=end, framing=framing, schema=schema))

    async def to_pandas(
        self,
        offset: int = 0,
        *,
        end: int | None = None,
        framing: Framing = JSON,
        schema: "pyarrow.Schema | None" = None,
    ) -> "pandas.DataFrame":
        """Return its committed messages as a DataFrame of pandas."""
        return to_pandas(await self.to_arrow(offset, end=end, framing=framing, schema=schema))


def safe_copies(brokers: int) -> tuple[int, bool]:
    """Return the default replication of a journal, and whether its appends are on disk before they are acknowledged."""
    return (3, False) if brokers == 0 or brokers >= 3 else (brokers, True)
