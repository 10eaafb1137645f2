"""A transaction over several journals, without `await`: the methods are those of `transaction.py`."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.client.messages import JSON
from penstock.journals.client.transactions.commit_journal import TRANSACTIONS
from penstock.journals.client.transactions.transaction import AsyncJournalTransaction
from penstock.messages.framing.framing import Framing
from penstock.plumbing.process.blocking import Blocking, blocking
from penstock.plumbing.process.loop_thread import LoopThread

__all__ = ["JournalTransaction"]

GATHERED_MAX: Final = 1_000  # values that wait for the event loop


@blocking(AsyncJournalTransaction, without=("check", "put"))
class JournalTransaction(Blocking[AsyncJournalTransaction]):
    """Messages to any number of journals, all or none. For one `with`."""

    def __init__(self, journals: BlockingJournals, *, transactions: str = TRANSACTIONS, timeout: float = 60.0) -> None:
        super().__init__(AsyncJournalTransaction(journals.journals, transactions=transactions, timeout=timeout))
        self._gathered: list[tuple[str, Framing, Sequence[Any]]] = []
        self._count = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        LoopThread.shared().run(self._end(kind, error, trace))

    def publish(self, journal: str, *values: Any, framing: Framing = JSON) -> None:
        """Publish messages to a journal, as part of the transaction. Values are read now."""
        self._async.check(journal)
        self._gathered.append((journal, framing, framing.prepare_all(values)))
        self._count += len(values)
        if self._count >= GATHERED_MAX:
            LoopThread.shared().run(self._pass_on())

    async def _pass_on(self) -> None:
        gathered, self._gathered, self._count = self._gathered, [], 0
        for journal, framing, prepared in gathered:
            await self._async.put(journal, framing, prepared)

    async def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self._pass_on()
        except BaseException as failure:
            await self._async.__aexit__(type(failure), failure, failure.__traceback__)
            raise
        await self._async.__aexit__(kind, error, trace)
