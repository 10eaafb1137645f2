"""The reader: reads on the loop's behalf, in other threads, while the writer continues.

What always holds:

- Nothing is returned that was not durable, or was truncated, at any moment of the read: a read which a truncation
  overtakes is done again.
- One walk through the log (`walk`) never shows two histories: if records it has passed are truncated, it ends with an
  error.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from penstock.kernel.errors import NotFound, PreconditionFailed, WalCorrupt
from penstock.kernel.ids import Lsn
from penstock.plumbing.wal.disk import Disk, storage_error
from penstock.plumbing.wal.records import Records, SegmentGone, no_records, read_records
from penstock.plumbing.wal.segments import Segments

__all__ = ["WalReader"]


@dataclass(slots=True, eq=False)
class _Walk:
    """The place of one walk through the log."""

    next_lsn: int
    cut_to: int | None = None  # truncated meanwhile


class WalReader:
    """Reads of one WAL. All methods are called on the loop."""

    def __init__(self, disk: Disk, segments: Segments) -> None:
        self._disk = disk
        self._segments = segments
        self._cuts = 0  # truncations asked for so far
        self._walks: set[_Walk] = set()

    def on_cut(self, lsn: Lsn) -> None:
        """The log is being truncated to `lsn`."""
        self._cuts += 1
        for walk in self._walks:
            if walk.next_lsn > lsn + 1:
                walk.cut_to = lsn

    async def read(self, first_lsn: Lsn, last_lsn: Callable[[], Lsn], bytes_max: int) -> Records:
        """Records from `first_lsn` to at most what `last_lsn` says now, and says again if the read must be repeated."""
        loop = asyncio.get_running_loop()
        while True:
            cuts = self._cuts
            live = self._segments.live
            if first_lsn < live[0].first_lsn:
                raise NotFound(
                    f"lsn {first_lsn} was trimmed: the log begins at {live[0].first_lsn}",
                    next_step="read from the first lsn kept, or from a snapshot",
                    first_lsn=live[0].first_lsn,
                )
            limit = last_lsn()
            if first_lsn > limit:
                return no_records(first_lsn)
            try:
                records = await loop.run_in_executor(None, read_records, self._disk, live, first_lsn, limit, bytes_max)
            except SegmentGone:
                continue
            except (WalCorrupt, OSError) as error:
                if cuts != self._cuts:
                    continue
                if isinstance(error, OSError):
                    raise storage_error(error, f"reading lsn {first_lsn}") from error
                raise
            if cuts == self._cuts:
                return records

    async def walk(self, first_lsn: Lsn, last_lsn: Callable[[], Lsn], bytes_max: int) -> AsyncIterator[Records]:
        """Read after read, until there are no more."""
        walk = _Walk(first_lsn)
        self._walks.add(walk)
        try:
            while records := await self.read(Lsn(walk.next_lsn), last_lsn, bytes_max):
                walk.next_lsn = records.last_lsn + 1
                yield records
                if walk.cut_to is not None:
                    raise PreconditionFailed(
                        f"the log was truncated to lsn {walk.cut_to} while a reader was at {walk.next_lsn}",
                        next_step="read again from a record that still exists",
                        lsn=walk.cut_to,
                    )
        finally:
            self._walks.discard(walk)
