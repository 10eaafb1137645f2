"""One journal by its name, as `stock.journal("shop/orders")` gives it: publish messages, read them, append bytes.

    with stock.journal("shop/orders").publisher() as publish:
        publish({"sku": "kettle", "quantity": 2})               # returns at once; at the end all are on every replica
    for message in stock.journal("shop/orders").read():         # the committed ones, each once
        print(message.published_at, message.value)

`AsyncJournal` has the names with `await`, `Journal` (in `named_blocking.py`) those without. What always holds: messages
of one publisher are in the order in which they were published, through outages of the brokers; leaving its block, or
`flush`, raises the first error.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Self

from penstock.journals.client.journal import Journals
from penstock.journals.client.journal_content import Source
from penstock.journals.client.journal_outcomes import Appended
from penstock.journals.client.messages import JSON, Message, committed_batches, read_committed
from penstock.journals.client.publishers import AsyncJournalPublisher
from penstock.journals.records.labels import Label, LabelSelector, LabelSet
from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import PreconditionFailed
from penstock.kernel.ids import Offset
from penstock.messages.framing.framing import Framing

__all__ = ["AsyncJournal"]


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
        replication: int = 1,
        fsync: bool = False,
        fragment: FragmentSpec = FragmentSpec(),  # noqa: B008 (frozen)
        labels: LabelSet | Mapping[str, str] = LabelSet(),  # noqa: B008 (frozen)
        max_append_rate: int = 0,
        exists_ok: bool = False,
    ) -> Self:
        """Make it, as a `JournalSpec` with these settings. `PreconditionFailed` if it exists, unless `exists_ok`."""
        spec = JournalSpec(
            name=self.name,
            replication=replication,
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

    def publisher(self, framing: Framing = JSON) -> AsyncJournalPublisher:
        """Return a publisher of messages to it, for an `async with`."""
        return AsyncJournalPublisher(self._journals, self.name, framing)

    def read(self, offset: int = 0, *, framing: Framing = JSON, follow: bool = False) -> AsyncIterator[Message]:
        """Yield its committed messages from an offset on; with `follow`, also new ones as they come."""
        return read_committed(self._journals, self.name, offset, framing=framing, follow=follow)

    def read_batches(
        self, offset: int = 0, *, framing: Framing = JSON, follow: bool = False
    ) -> AsyncIterator[list[Message]]:
        """Yield its committed messages as `read` does, in lists as they came."""
        return committed_batches(self._journals, self.name, offset, framing=framing, follow=follow)
