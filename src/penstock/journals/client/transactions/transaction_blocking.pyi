"""A transaction over several journals, without `await`: the methods are those of `transaction.py`."""

from types import TracebackType
from typing import Any, Self

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.client.transactions.transaction import AsyncJournalTransaction
from penstock.messages.framing.framing import Framing
from penstock.plumbing.files.tables import ArrowTable
from penstock.plumbing.process.blocking import Blocking

__all__ = ["JournalTransaction"]

class JournalTransaction(Blocking[AsyncJournalTransaction]):
    """Messages to any number of journals, all or none. For one `with`."""

    def __init__(self, journals: BlockingJournals, *, transactions: str = ..., timeout: float = 60.0) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def publish(self, journal: str, *values: Any, framing: Framing = ...) -> None:
        """Publish messages to a journal, as part of the transaction. Values are read now."""

    def __enter__(self) -> Self: ...
    def publish_table(self, journal: str, table: ArrowTable, *, framing: Framing = ...) -> int:
        """Publish each row of a DataFrame or an Arrow table as a message. Returns their number."""
