"""A transaction over several journals: readers of committed messages see all of its messages, or none.

    async with stock.transaction() as changes:
        await changes.publish("shop/orders", {"id": 7, "sku": "kettle"})
        await changes.publish("shop/payments", {"order": 7, "amount": "39.90"})

A block that raises publishes nothing. Each journal shows its messages together; two journals may show theirs some
milliseconds apart. If the process dies, the transaction is committed or not, as the journal of transactions says: the
next process that makes a transaction finishes it, and so does `penstock pipeline finish` (decision 601).
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self
from weakref import WeakKeyDictionary

from penstock.journals.client.journal import Journals
from penstock.journals.client.messages import JSON
from penstock.journals.client.transactions.commit_journal import (
    TRANSACTIONS,
    CommitJournal,
    Intents,
    Record,
    append_surely,
)
from penstock.journals.client.transactions.pending import PendingMessages, values_of
from penstock.journals.records.labels import LabelSelector, LabelSet
from penstock.journals.records.names import check_journal_name
from penstock.kernel.errors import AlreadyClosed, NotFound, PenstockError, Unavailable, Written
from penstock.messages.framing.framing import Framing
from penstock.plumbing.files.tables import ArrowTable, to_arrow

__all__ = ["AsyncJournalTransaction"]

QUERY: Final = "transaction"  # in records, for people who look for what happened
_finished: "Final[WeakKeyDictionary[Journals, set[str]]]" = (
    WeakKeyDictionary()
)  # journals of transactions looked through


class AsyncJournalTransaction:
    """Messages to any number of journals, all or none. For one `async with`."""

    def __init__(self, journals: Journals, *, transactions: str = TRANSACTIONS, timeout: float = 60.0) -> None:
        check_journal_name(transactions)
        self._journals = journals
        self._name = transactions
        self._timeout_s = timeout
        self._pending: PendingMessages | None = None

    async def __aenter__(self) -> Self:
        await self._finish_others()
        self._pending = PendingMessages(self._journals, self._timeout_s)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pending = self._open()
        try:
            if error is None:
                await self._commit(await pending.settle(), pending)
        finally:
            self._pending = None
            await pending.close()

    async def publish(self, journal: str, *values: Any, framing: Framing = JSON) -> None:
        """Publish messages to a journal, as part of the transaction. Values are read now."""
        self.check(journal)
        await self.put(journal, framing, framing.prepare_all(values))

    async def publish_table(self, journal: str, table: ArrowTable, *, framing: Framing = JSON) -> int:
        """Publish each row of a DataFrame or an Arrow table as a message. Returns their number."""
        values = values_of(to_arrow(table), framing)
        await self.publish(journal, *values, framing=framing)
        return len(values)

    def check(self, journal: str) -> None:
        """Raise if the transaction is not open, has failed, or if that is no name of a journal."""
        self._open().check()
        check_journal_name(journal)

    async def put(self, journal: str, framing: Framing, prepared: Sequence[Any]) -> None:
        """Publish messages that the framing has prepared."""
        await self._open().put(journal, framing, prepared)

    def _open(self) -> PendingMessages:
        if self._pending is None:
            raise AlreadyClosed("the transaction is not open: use it inside its `with` block")
        return self._pending

    async def _commit(self, intents: Intents, pending: PendingMessages) -> None:
        if len(intents) < 2:
            for journal, frames in intents.items():  # the acknowledgement of one journal is one append
                await append_surely(self._journals, journal, frames, self._timeout_s)
            return
        commits = await self._commit_journal(next(iter(intents)))
        record = Record("", QUERY, 0, intents, rows=pending.count)
        await commits.record(record, pending.appends)
        try:
            await commits.publish(record)
        except PenstockError as error:
            _finished.pop(self._journals, None)
            raise Unavailable(
                f"the transaction is committed, and readers do not see all of it yet: {error.message}",
                written=Written.YES,
                retryable=False,
                next_step=f"run penstock pipeline finish --transactions {self._name}, or begin another",
            ) from error

    async def _commit_journal(self, target: str) -> CommitJournal:
        """Return the journal of transactions; if it has to be made, with as many copies as the target."""
        found = await self._journals.list(LabelSelector(LabelSet.of({"name": target})))
        if not found:
            raise NotFound(f"there is no journal {target!r}", next_step="penstock journals list")
        spec = found[0].spec
        return CommitJournal(self._journals, self._name, self._timeout_s, spec.replication, fsync=spec.fsync)

    async def _finish_others(self) -> None:
        """Finish the transactions of dead processes, once for each client. A failure leaves them to the next one."""
        looked = _finished.setdefault(self._journals, set())
        if self._name in looked:
            return
        try:
            await CommitJournal(self._journals, self._name, self._timeout_s).finish()
        except (PenstockError, TimeoutError):
            return
        looked.add(self._name)
