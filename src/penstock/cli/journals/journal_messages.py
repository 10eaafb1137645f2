"""Messages on stdout, for `penstock journals cat`."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

import msgspec

from penstock.journals.client.journal import Journals
from penstock.journals.client.messages import Message as CommittedMessage
from penstock.journals.client.messages import read_committed
from penstock.kernel.ids import Offset
from penstock.messages.framing.csv_rows import CsvRows
from penstock.messages.framing.framing import Framing
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.message import Message
from penstock.messages.reader import UncommittedReader

__all__ = ["FRAMINGS", "message_lines"]

FRAMINGS: Final[dict[str, Framing]] = {"json": JsonLines(), "csv": CsvRows()}


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
