"""One journal by its name, as `stock.journal("shop/orders")` gives it: publish messages, read them, append bytes.

    with stock.journal("shop/orders").publisher() as publish:
        publish({"sku": "kettle", "quantity": 2})               # returns at once; at the end all are on every replica
    for message in stock.journal("shop/orders").read():         # the committed ones, each once
        print(message.published_at, message.value)

The same names with `await` are on `AsyncJournal`. What always holds: messages of one publisher are in the order in
which they were published, through outages of the brokers; leaving its block, or `flush`, raises what went wrong.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final, Self

from penstock.journals.client.journal import Journals
from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.client.journal_content import Source
from penstock.journals.client.journal_outcomes import Appended
from penstock.journals.client.messages import JSON, CommittedMessage, committed_batches, read_committed
from penstock.journals.client.publishers import AsyncJournalPublisher, JournalPublisher
from penstock.journals.records.labels import LabelSelector, LabelSet
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import PreconditionFailed
from penstock.messages.framing.framing import Framing
from penstock.plumbing.process.loop_thread import LoopThread

__all__ = ["AsyncJournal", "Journal"]

READ_AHEAD: Final = 4  # batches of up to a thousand messages


class AsyncJournal:
    """A journal, for asyncio."""

    def __init__(self, journals: Journals, name: str) -> None:
        self.name = name
        self._journals = journals

    def __repr__(self) -> str:
        return f"journal {self.name}"

    async def create(self, *, replication: int = 1, exists_ok: bool = False, **settings: Any) -> Self:
        """Make it, as a `JournalSpec` with these settings. `PreconditionFailed` if it exists, unless `exists_ok`."""
        spec = JournalSpec(name=self.name, replication=replication, **settings)
        try:
            await self._journals.create(spec)
        except PreconditionFailed:
            named = LabelSelector(LabelSet.of({"name": self.name}))
            if not exists_ok or not await self._journals.list(named):
                raise
        return self

    async def append(self, content: Source, **options: Any) -> Appended:
        """Append bytes, all or none of them. Options as of `Journals.append`."""
        return await self._journals.append(self.name, content, **options)

    def publisher(self, framing: Framing = JSON) -> AsyncJournalPublisher:
        """Return a publisher of messages to it, for an `async with`."""
        return AsyncJournalPublisher(self._journals, self.name, framing)

    def read(
        self, offset: int = 0, *, framing: Framing = JSON, follow: bool = False
    ) -> AsyncIterator[CommittedMessage]:
        """Yield its committed messages from an offset on; with `follow`, also new ones as they come."""
        return read_committed(self._journals, self.name, offset, framing=framing, follow=follow)

    def read_batches(
        self, offset: int = 0, *, framing: Framing = JSON, follow: bool = False
    ) -> AsyncIterator[list[CommittedMessage]]:
        """Yield its committed messages as `read` does, in lists as they came."""
        return committed_batches(self._journals, self.name, offset, framing=framing, follow=follow)


class Journal:
    """A journal, without `await`."""

    def __init__(self, journals: BlockingJournals, name: str) -> None:
        self.name = name
        self._journals = journals

    @property
    def _journal(self) -> AsyncJournal:
        return AsyncJournal(self._journals.journals, self.name)

    @property
    def _thread(self) -> LoopThread:
        return LoopThread.shared()

    def __repr__(self) -> str:
        return f"journal {self.name}"

    def create(self, *, replication: int = 1, exists_ok: bool = False, **settings: Any) -> Self:
        """Make it, as a `JournalSpec` with these settings. `PreconditionFailed` if it exists, unless `exists_ok`."""
        self._thread.run(self._journal.create(replication=replication, exists_ok=exists_ok, **settings))
        return self

    def append(self, content: Source, **options: Any) -> Appended:
        """Append bytes, all or none of them. Options as of `Journals.append`."""
        return self._thread.run(self._journal.append(content, **options))

    def publisher(self, framing: Framing = JSON) -> JournalPublisher:
        """Return a publisher of messages to it, for a `with`."""
        return JournalPublisher(lambda: self._journal.publisher(framing), framing)

    def read(self, offset: int = 0, *, framing: Framing = JSON, follow: bool = False) -> Iterator[CommittedMessage]:
        """Yield its committed messages from an offset on; with `follow`, also new ones as they come."""
        batches = self._journal.read_batches(offset, framing=framing, follow=follow)
        for batch in self._thread.iterate(batches, ahead=READ_AHEAD):
            yield from batch
