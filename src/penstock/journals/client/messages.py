"""Messages in journals, for programs that need no consumer: publish them, and read the committed ones.

    async with MessagePublisher(journals) as publish:
        await publish("shop/orders", {"sku": "kettle"})           # when it is on every replica
    async for message in read_committed(journals, "shop/orders"):
        print(message.published_at, message.value)

Each published message is committed by itself. A message whose answer was lost is sent again, and readers of committed
messages still see it once.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from itertools import repeat
from types import TracebackType
from typing import Any, Final

import msgspec

from penstock.journals.client.append_service import PATIENCE_S, AppendService
from penstock.journals.client.journal import Journals
from penstock.journals.client.journal_outcomes import Appended
from penstock.kernel.errors import InvalidArgument, MalformedFrame
from penstock.kernel.ids import Offset
from penstock.messages.clock import to_unix_ns
from penstock.messages.framing.framing import Framing
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.message import Message as Frame
from penstock.messages.message import Replay
from penstock.messages.publisher import Publisher
from penstock.messages.read_state import ReadState
from penstock.messages.reader import CommittedMessage, CommittedReader, OnBad
from penstock.messages.uuid import ACK_TXN, CONTINUE_TXN, Uuid, producer_id
from penstock.plumbing.process.logs import get_logger

__all__ = ["JSON", "Message", "MessagePublisher", "committed_batches", "read_committed"]

JSON: Final = JsonLines()
log = get_logger()


class Message(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A message of a journal. Its value and its UUID are decoded when they are looked at."""

    journal: str
    _message: Frame
    _framing: Framing

    @property
    def is_in_transaction(self) -> bool:
        """True for a message of a transaction: an acknowledgement commits it."""
        return self._message.flags == CONTINUE_TXN and self._message.clock != 0

    def __repr__(self) -> str:
        return f"Message({self.journal} [{self.begin}, {self.end}))"

    @property
    def value(self) -> Any:
        """The decoded value; decoded at each access."""
        try:
            return self._framing.decode(self._message.frame)
        except InvalidArgument as error:
            raise MalformedFrame(
                f"{self.journal} at {self.begin}: {error.message}", journal=self.journal, begin=self.begin, end=self.end
            ) from None

    @property
    def frame(self) -> bytes:
        """The message's bytes in the journal."""
        return self._message.frame

    @property
    def begin(self) -> Offset:
        """The offset at which the message begins."""
        return self._message.begin

    @property
    def end(self) -> Offset:
        """The offset at which the next message begins."""
        return self._message.end

    @property
    def uuid(self) -> Uuid | None:
        """The message's producer and time. None: it has none, and may come again."""
        return self._message.uuid if self._message.clock else None

    def _repr_html_(self) -> str:
        from penstock.kernel.notebook import html_table

        rows = [("journal", self.journal), ("offset", self.begin), ("published", self.published_at or "")]
        return html_table((), [*rows, ("value", self.value)])

    @property
    def published_at(self) -> datetime | None:
        """The time at which its publisher made it; None if it has no UUID."""
        clock = self._message.clock
        return datetime.fromtimestamp(to_unix_ns(clock) / 1e9, UTC) if clock else None


class MessagePublisher:
    """Publishes messages, in order per journal, in batches, through outages of the brokers."""

    def __init__(self, journals: Journals, framing: Framing = JSON, *, patience_s: float = PATIENCE_S) -> None:
        """`patience_s`: how long messages are sent again while no broker takes them."""
        ports = journals.ports
        self._framing = framing
        self._publisher = Publisher(producer_id(int.from_bytes(ports.chance.token(6), "big")), ports.clock.time_ns())
        self._appends = AppendService(journals, patience_s=patience_s)

    async def __aenter__(self) -> "MessagePublisher":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._appends.__aexit__(kind, error, trace)

    async def __call__(self, journal: str, *values: Any) -> Appended:
        """Publish, and return when it is on every replica. Waits for room first, if too much is on its way."""
        return await (await self.put(journal, values))

    async def put(self, journal: str, values: Sequence[Any]) -> "asyncio.Future[Appended]":
        """Publish, and tell later. Waits for room."""
        await self.wait_for_room()
        return self.put_now(journal, self._framing.prepare_all(values))

    async def wait_for_room(self) -> None:
        """Wait until `put_now` would take something."""
        await self._appends.wait_for_room()

    @property
    def is_full(self) -> bool:
        """Return whether too much is on its way for `put_now`."""
        return self._appends.is_full

    def put_now(self, journal: str, prepared: Sequence[Any]) -> "asyncio.Future[Appended]":
        """Publish values that the framing has prepared, and tell later. `Unavailable` if too much is on its way."""
        self._publisher.update(self._appends.ports.clock.time_ns())
        return self._appends.put(journal, self._publisher.committed_prepared(journal, self._framing, prepared))


async def read_committed(
    journals: Journals,
    journal: str,
    offset: int = 0,
    *,
    end: int = 0,
    framing: Framing = JSON,
    follow: bool = False,
    on_bad: OnBad = OnBad.FAIL,
) -> AsyncIterator[Message]:
    """Yield the committed messages of a journal from an offset on, each once, without their acknowledgements.

    With an `end`, those that are committed by the content before it.
    """
    batches = committed_batches(journals, journal, offset, end=end, framing=framing, follow=follow, on_bad=on_bad)
    async with aclosing(batches):
        async for batch in batches:
            for message in batch:
                yield message


async def committed_batches(
    journals: Journals,
    journal: str,
    offset: int = 0,
    *,
    end: int = 0,
    framing: Framing = JSON,
    follow: bool = False,
    on_bad: OnBad = OnBad.FAIL,
) -> AsyncGenerator[list[Message], None]:
    """Yield the messages of `read_committed` in lists, as chunks of the journal bring them."""
    reader = CommittedReader(journal, framing, ReadState(Offset(offset)), on_bad=on_bad)
    async for chunk in journals.read(journal, offset, end=end, follow=follow):
        reader.feed(chunk.offset, bytes(chunk.content))
        while (found := reader.next()) is not None:
            if isinstance(found, Replay):
                await _replay(journals, journal, reader, found)
            elif isinstance(found, CommittedMessage):
                messages = [message for message in found.messages if message.flags != ACK_TXN or not message.is_ack]
                if messages:
                    yield list(map(Message, repeat(journal), messages, repeat(framing)))
            else:
                log.warning("passed over", journal=journal, found=str(found))


async def _replay(journals: Journals, journal: str, reader: CommittedReader, wanted: Replay) -> None:
    async for chunk in journals.read(journal, wanted.begin, end=wanted.end, follow=True):
        reader.replay(chunk.offset, bytes(chunk.content))
        return
