"""More ways to read messages: the last ones, those since a time, the uncommitted ones, and all of them as a table."""

from collections import deque
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.journals.client.journal import Journals
from penstock.journals.client.messages import Message, committed_batches, read_committed
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.extras import extra
from penstock.kernel.ids import Offset
from penstock.messages.framing.framing import Framing
from penstock.messages.message import Message as Frame
from penstock.messages.reader import OnBad, UncommittedReader
from penstock.messages.uuid import CONTINUE_TXN

if TYPE_CHECKING:
    import pyarrow

__all__ = ["MessageList", "read_since", "read_table", "read_tail", "read_uncommitted"]

WINDOW_BYTES: Final = 64 << 10  # at the end of a journal, where its last messages are looked for at first
WINDOW_BYTES_MAX: Final = 64 << 20  # where the beginnings of transactions are looked for
LATE_S: Final = 3600  # that a store's clock may be ahead of a publisher's


class MessageList(list[Message]):
    """Messages, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from penstock.kernel.notebook import html_table

        rows = [(each.begin, each.published_at or "", msgspec.json.encode(each.value).decode()) for each in self]
        return html_table(("offset", "published", "value"), rows)


async def read_uncommitted(
    journals: Journals, journal: str, offset: int, end: int, framing: Framing, *, follow: bool
) -> AsyncIterator[Message]:
    """Yield every message in the journal's order: also pending ones, rolled-back ones and duplicates."""
    reader = UncommittedReader(journal, framing, Offset(offset))
    async for chunk in journals.read(journal, offset, end=end, follow=follow):
        reader.feed(chunk.offset, bytes(chunk.content))
        while (found := reader.next()) is not None:
            if isinstance(found, Frame) and not found.is_ack:
                yield Message(journal, found, framing)


async def read_since(
    journals: Journals, journal: str, time: datetime | float, framing: Framing, *, follow: bool
) -> AsyncIterator[Message]:
    """Yield the committed messages that were published at a time or later. Messages without a time are left out."""
    since = _moment(time)
    known = await journals.fragments(journal)
    oldest_s = since.timestamp() - LATE_S
    before = [each.end for each in known.fragments if each.backing_store and each.mod_time < oldest_s]
    async for message in read_committed(journals, journal, max(before, default=0), framing=framing, follow=follow):
        if message.published_at is not None and message.published_at >= since:
            yield message


def _moment(time: datetime | float) -> datetime:
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise InvalidArgument(f"{time}: expected a time with a zone, like datetime.now(UTC)")
        return time
    return datetime.fromtimestamp(time, UTC)


async def read_tail(journals: Journals, journal: str, count: int, framing: Framing) -> MessageList:
    """Return the last committed messages.

    It reads the journal's end, and more of it until it has the messages and the beginnings of their transactions. It
    looks for beginnings in the last 64 MiB only.
    """
    if count < 1:
        raise InvalidArgument(f"{count}: expected a number of messages above 0")
    end = (await journals.fragments(journal)).write_head
    size = WINDOW_BYTES
    while True:
        begin = max(0, end - size)
        first, is_whole = await _window(journals, journal, begin, end, framing)
        last: deque[Message] = deque(maxlen=count)
        if first < end:
            async for batch in committed_batches(journals, journal, first, end=end, framing=framing):
                last += batch
        if begin == 0 or (len(last) == count and (is_whole or size >= WINDOW_BYTES_MAX)):
            return MessageList(last)
        size *= 4


async def _window(journals: Journals, journal: str, begin: int, end: int, framing: Framing) -> tuple[int, bool]:
    """Return where the first whole message of a window begins, and whether all transactions that end in it begin in it.

    The window may begin in the middle of a message: the first finding is passed over.
    """
    reader = UncommittedReader(journal, framing, Offset(begin), on_bad=OnBad.SKIP)
    first, is_whole, pending = begin if begin == 0 else end, True, set()
    if begin == end:
        return end, True
    async for chunk in journals.read(journal, begin, end=end):
        reader.feed(chunk.offset, bytes(chunk.content))
        while (found := reader.next()) is not None:
            if first == end:
                first = found.end
            elif isinstance(found, Frame) and found.flags == CONTINUE_TXN:
                pending.add(found.producer)
            elif isinstance(found, Frame) and found.is_ack:
                is_whole = is_whole and found.producer in pending
    return first, is_whole


async def read_table(
    journals: Journals, journal: str, offset: int, end: int, framing: Framing, schema: "pyarrow.Schema | None"
) -> "pyarrow.Table":
    """Return the committed messages as a table: a column for each field of their values."""
    with extra("tables", "a table of messages"):
        import pyarrow as pa
    values: list[Any] = []
    async for batch in committed_batches(journals, journal, offset, end=end, framing=framing):
        values += [message.value for message in batch]
    if values and isinstance(values[0], pa.RecordBatch):
        return pa.Table.from_batches(values)
    rows = [value if isinstance(value, dict) else _row(value) for value in values]
    try:
        if schema is not None:
            return pa.Table.from_pylist(rows, schema=schema)
        return pa.Table.from_struct_array(pa.array(rows)) if rows else pa.table({})
    except pa.ArrowException as error:
        raise InvalidArgument(
            f"{journal}: the values do not fit one table: {error}", next_step="give a schema, as a pyarrow.Schema"
        ) from None


def _row(value: Any) -> Any:
    """Return a value as a dict."""
    found = msgspec.to_builtins(value, builtin_types=(bytes,))
    return found if isinstance(found, dict) else {"value": found}
