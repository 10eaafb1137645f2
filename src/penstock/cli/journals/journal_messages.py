"""Messages on stdin and stdout: what `penstock journals publish` and `cat` do."""

import asyncio
import csv
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import IO, Any, Final

import msgspec

from penstock.journals.client.journal import Journals
from penstock.journals.client.messages import CommittedMessage, MessagePublisher, read_committed
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Offset
from penstock.messages.framing.csv_rows import CsvRows
from penstock.messages.framing.framing import Framing
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.message import Message
from penstock.messages.reader import UncommittedReader

__all__ = ["message_lines", "publish_lines"]

BATCH: Final = 1_000  # messages which are framed at once
SAY_EVERY: Final = 100_000
FRAMINGS: Final[dict[str, Framing]] = {"json": JsonLines(), "csv": CsvRows()}


async def publish_lines(
    journals: Journals, journal: str, framing: str, source: IO[bytes], say: Callable[[str], None] | None
) -> tuple[int, Offset]:
    """Publish every message of a file; how many there were, and where the journal ends behind them."""
    values = _json_values(source) if framing == "json" else _csv_values(source)
    count, last = 0, None
    async with MessagePublisher(journals, FRAMINGS[framing]) as publish:
        while batch := await asyncio.to_thread(_take, values):
            last = await publish.put(journal, batch)
            before, count = count, count + len(batch)
            if say is not None and count // SAY_EVERY > before // SAY_EVERY:
                say(f"{count:,} messages")
    return count, (await last).end if last is not None else Offset(0)


def _take(values: Iterator[Any]) -> list[Any]:
    return [value for value, _ in zip(values, range(BATCH), strict=False)]


def _json_values(source: IO[bytes]) -> Iterator[msgspec.Raw]:
    for number, line in enumerate(source, start=1):
        if line.strip():
            try:
                msgspec.json.decode(line, type=dict[str, msgspec.Raw])
            except msgspec.DecodeError as error:
                raise InvalidArgument(f"line {number} is no JSON object: {error}") from None
            yield msgspec.Raw(line.strip())


def _csv_values(source: IO[bytes]) -> Iterator[list[str]]:
    try:
        yield from (row for row in csv.reader((line.decode() for line in source), strict=True) if row)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidArgument(f"this is no CSV: {error}") from None


async def message_lines(
    journals: Journals, journal: str, framing: str, first: int, *, committed: bool, follow: bool, uuids: bool
) -> AsyncGenerator[bytes, None]:
    """A line for each message."""
    chosen = FRAMINGS[framing]
    messages = (
        read_committed(journals, journal, first, framing=chosen, follow=follow)
        if committed
        else _read_all(journals, journal, first, chosen, follow=follow)
    )
    async for message in messages:
        head = f"{message.uuid.text if message.uuid is not None else '-'} ".encode() if uuids else b""
        yield head + _line(message)


def _line(message: CommittedMessage) -> bytes:
    value = message.value
    if isinstance(value, list):
        return CsvRows(with_uuid=False).encode(value, None).rstrip(b"\r\n") + b"\n"
    return msgspec.json.encode(value) + b"\n"


async def _read_all(
    journals: Journals, journal: str, first: int, framing: Framing, *, follow: bool
) -> AsyncIterator[CommittedMessage]:
    """Every message but ACKs, committed or not."""
    reader = UncommittedReader(journal, framing, Offset(first))
    async for chunk in journals.read(journal, first, follow=follow):
        reader.feed(chunk.offset, bytes(chunk.content))
        while (found := reader.next()) is not None:
            if isinstance(found, Message) and not found.is_ack:
                yield CommittedMessage(journal, found, framing)
