"""The content of an append on its way to a broker: a buffer, or an iterable of buffers of any length together.

It is cut into parts and sent as fast as the broker takes them; nothing of it is seen if its source fails.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any

from penstock.journals.client.journal_appends import PART_BYTES, AppendStream
from penstock.journals.records.protocol import AppendWish, PartKind

__all__ = ["Buffer", "Source", "send_unless_answered"]

Buffer = bytes | bytearray | memoryview
Source = Buffer | Iterable[Buffer] | AsyncIterable[Buffer]


def begin_append(stream: AppendStream, content: Source, wish: AppendWish) -> int:
    """Send the first part of a buffer now, so that appends begin in the order of the calls; return its number."""
    number = stream.begin()
    if isinstance(content, bytes):
        if len(content) <= PART_BYTES:
            stream.send(number, content, PartKind.COMMIT, wish)
        else:
            stream.send(number, memoryview(content)[:PART_BYTES], PartKind.MORE, wish)
    elif isinstance(content, bytearray | memoryview):
        view = memoryview(content).cast("B")
        kind = PartKind.COMMIT if len(view) <= PART_BYTES else PartKind.MORE
        stream.send(number, view[:PART_BYTES], kind, wish)
    return number


def is_begun_whole(content: Source) -> bool:
    """Return whether `begin_append` sent all of it."""
    if isinstance(content, bytes):
        return len(content) <= PART_BYTES
    return isinstance(content, bytearray | memoryview) and memoryview(content).nbytes <= PART_BYTES


async def send_unless_answered(stream: AppendStream, number: int, content: Source, wish: AppendWish) -> None:
    """Send what `begin_append` did not; but if it was refused before all was sent, no more of it."""
    first: AppendWish | None = wish
    if isinstance(content, bytes | bytearray | memoryview):
        content, first = memoryview(content).cast("B")[PART_BYTES:], None
    sending = asyncio.create_task(_send(stream, number, content, first))
    try:
        either: list[asyncio.Future[Any]] = [sending, stream.answered(number)]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()
    finally:
        sending.cancel()


async def _send(stream: AppendStream, number: int, content: Source, first: AppendWish | None) -> None:
    """Send all of it, in parts, and the commit; nothing of it if the source fails."""
    async for part in _parts(content):
        await stream.wait_for_room()
        stream.send(number, part, PartKind.MORE, first)
        first = None
    stream.send(number, b"", PartKind.COMMIT, first)


async def _parts(content: Any) -> AsyncIterator[memoryview]:
    if isinstance(content, bytes | bytearray | memoryview):
        content = (content,)
    if isinstance(content, AsyncIterable):
        async for each in content:
            for part in _cut(each):
                yield part
    else:
        for each in content:
            for part in _cut(each):
                yield part


def _cut(content: Buffer) -> list[memoryview]:
    view = memoryview(content).cast("B")
    return [view[at : at + PART_BYTES] for at in range(0, len(view), PART_BYTES)]
