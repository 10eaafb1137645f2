"""Pending messages: appended under one producer, and committed by their acknowledgements."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final

from penstock.journals.client.append_service import AppendService
from penstock.journals.client.journal import Journals
from penstock.journals.client.journal_outcomes import Appended
from penstock.journals.client.transactions.commit_journal import Intents, append_surely
from penstock.kernel.errors import InvalidArgument
from penstock.messages.framing.framing import Framing
from penstock.messages.publisher import Publisher
from penstock.messages.uuid import producer_id

__all__ = ["PendingMessages", "publish_all", "values_of"]

SLICE: Final = 1_000  # messages of one append
ROWS_OF: Final = "application/vnd.apache.arrow.stream+penstock-fixed"  # the framing whose messages are batches of rows


class PendingMessages:
    """One producer's messages to any number of journals, pending."""

    def __init__(self, journals: Journals, timeout_s: float) -> None:
        ports = journals.ports
        self.count = 0
        self._publisher = Publisher(producer_id(int.from_bytes(ports.chance.token(6), "big")), ports.clock.time_ns())
        self.appends = AppendService(journals, patience_s=timeout_s)
        self._framings: dict[str, Framing] = {}
        self._sent: dict[str, asyncio.Future[Appended]] = {}  # the last one of each journal: they end in order
        self._failure: BaseException | None = None

    async def put(self, journal: str, framing: Framing, prepared: Sequence[Any]) -> None:
        """Append messages that the framing has prepared. Waits for room only."""
        known = self._framings.setdefault(journal, framing)
        if known is not framing:
            raise InvalidArgument(f"{journal}: a journal has one framing, not both {known} and {framing}")
        for first in range(0, len(prepared), SLICE):
            await self.appends.wait_for_room()
            self.check()
            some = prepared[first : first + SLICE]
            self._publisher.update(self.appends.ports.clock.time_ns())
            sent = self.appends.put(journal, self._publisher.uncommitted_prepared(journal, framing, some))
            sent.add_done_callback(self._settled)
            self._sent[journal] = sent
            self.count += len(some)

    async def settle(self) -> Intents:
        """Wait until all messages are on every replica; return their acknowledgements."""
        await self.appends.flush()
        await asyncio.gather(*self._sent.values())
        self.check()
        return self._publisher.ack_intents()

    def check(self) -> None:
        """Raise the first error, if there was one."""
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Stop. Messages that were not acknowledged are never seen."""
        await self.appends.close()

    def _settled(self, done: "asyncio.Future[Appended]") -> None:
        if not done.cancelled() and self._failure is None:
            self._failure = done.exception()


async def publish_all(
    journals: Journals, journal: str, values: Sequence[Any], framing: Framing, timeout_s: float
) -> None:
    """Publish messages to one journal, all of them or none: the acknowledgement of all is one append."""
    pending = PendingMessages(journals, timeout_s)
    try:
        await pending.put(journal, framing, framing.prepare_all(values))
        for frames in (await pending.settle()).values():
            await append_surely(journals, journal, frames, timeout_s)
    finally:
        await pending.close()


def values_of(table: Any, framing: Framing) -> list[Any]:
    """Return the messages of an Arrow table: its rows, or its batches if that is what the framing holds."""
    if framing.content_type == ROWS_OF:
        return list(table.to_batches(max_chunksize=65_536))
    rows: list[Any] = table.to_pylist()
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: NaN is null there."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
