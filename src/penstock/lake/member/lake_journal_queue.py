"""A journal as the lake's queue: an append is a batch of records. Design: lake.md L1 to L3; journals.md.

    magic, 4 bytes | length, 4 | CRC-32C of the batch, 4 | the batch

Each batch is one append, so it is in the journal whole or not at all, and readers see only what every replica has. The
cursor is the offset after the last batch read. Bytes that are no batch (appended by hand) are left out by every member
alike: the next batch begins where the next one can be read. Offsets which the journal no longer has, because they were
pruned or its head was reset, are `Compacted`: the member begins with a checkpoint, or not at all.
"""

import struct
from collections.abc import AsyncIterator, Callable
from typing import Final

import google_crc32c

from penstock.journals.client.journal import Journals
from penstock.kernel.errors import Compacted
from penstock.lake.member.gathering import APPEND_S, BATCH_BYTES_MAX, GatheringQueue, decode_batch
from penstock.lake.member.queue import QueueBatch

__all__ = ["Frames", "JournalQueue", "frame"]

MAGIC: Final = b"\xd1LQ1"
HEAD: Final = struct.Struct("<4sII")
LENGTH_MAX: Final = BATCH_BYTES_MAX + (1 << 20)  # a batch is sent when it is full: the record which filled it is in it


def frame(data: bytes) -> bytes:
    """Return a batch in its form in the journal."""
    return HEAD.pack(MAGIC, len(data), google_crc32c.value(data)) + data


class Frames:
    """Bytes of the journal, from one offset on, cut into batches."""

    def __init__(self, offset: int) -> None:
        self.offset = offset  # of the first byte held
        self._held = bytearray()

    def feed(self, content: bytes | bytearray | memoryview) -> list[tuple[int, bytes]]:
        """Return the complete batches: the offset after each, and its bytes."""
        self._held += content
        found: list[tuple[int, bytes]] = []
        while (batch := self._next()) is not None:
            found.append((self.offset, batch))
        return found

    def _next(self) -> bytes | None:
        while len(self._held) >= HEAD.size:
            magic, length, checksum = HEAD.unpack_from(self._held)
            if magic != MAGIC or length > LENGTH_MAX:
                self._skip()
                continue
            end = HEAD.size + length
            if len(self._held) < end:
                return None
            data = bytes(self._held[HEAD.size : end])
            if google_crc32c.value(data) == checksum:
                self._drop(end)
                return data
            self._skip()
        return None

    def _skip(self) -> None:
        """To where a batch may begin."""
        at = self._held.find(MAGIC[:1], 1)
        self._drop(at if at > 0 else len(self._held))

    def _drop(self, count: int) -> None:
        del self._held[:count]
        self.offset += count


class JournalQueue(GatheringQueue):
    """The queue of all members of one lake, in one journal. For one event loop."""

    checkpoint_span = 8 << 20  # bytes

    def __init__(self, journals: Journals, journal: str, *, clock: Callable[[], int] | None = None) -> None:
        super().__init__(clock)
        self._journals = journals
        self._journal = journal

    async def append(self, data: bytes) -> None:
        await self._journals.append(self._journal, frame(data), timeout=APPEND_S)

    async def read(self, cursor: int) -> AsyncIterator[QueueBatch]:
        await self.first_answer()
        frames, expected = Frames(cursor), cursor
        async for chunk in self._journals.read(self._journal, cursor, follow=True):
            if chunk.offset != expected:
                raise Compacted(
                    f"{self._journal} has nothing between {expected} and {chunk.offset} any more",
                    next_step=f"penstock journals explain {self._journal}",
                )
            expected = chunk.offset + len(chunk.content)
            for offset, data in frames.feed(chunk.content):
                batch = decode_batch(data, offset)
                if batch is not None:
                    yield QueueBatch(offset, batch.stamp, batch.envelopes)
