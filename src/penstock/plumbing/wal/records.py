"""Reading records back, from any Lsn, while others are being written.

A read opens the files by name, each time: nothing is shared with the writer but the row of segments, which is never
changed, only replaced. Everything is checked on the way, and records after the asked Lsn are not read.
"""

from array import array
from bisect import bisect_right
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import accumulate

import msgspec

from penstock.kernel.ids import Lsn
from penstock.plumbing.wal.cursor import Cursor, Damage, LogBatch
from penstock.plumbing.wal.disk import Disk
from penstock.plumbing.wal.segment import WalSegment, corrupt, read_header

__all__ = ["Records", "SegmentGone", "no_records", "read_records"]


class SegmentGone(Exception):
    """A segment was trimmed or replaced while it was to be read: look again at the present log."""


class Records(msgspec.Struct, frozen=True):
    """Records in a row, as one piece of memory: iterate for a view of each, or pass the payload on as it is."""

    first_lsn: Lsn
    lengths: "array[int]"
    payload: bytes

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def last_lsn(self) -> Lsn:
        """Return the Lsn of the last record; one less than `first_lsn` if there is none."""
        return Lsn(self.first_lsn + len(self.lengths) - 1)

    def __iter__(self) -> Iterator[memoryview]:
        view = memoryview(self.payload)
        start = 0
        for end in accumulate(self.lengths):
            yield view[start:end]
            start = end


def no_records(first_lsn: Lsn) -> Records:
    return Records(first_lsn, array("I"), b"")


def read_records(disk: Disk, live: tuple[WalSegment, ...], first_lsn: Lsn, last_lsn: Lsn, bytes_max: int) -> Records:
    """Records from `first_lsn` on, not behind `last_lsn`, both of which the segments hold. At least one is returned.

    The payloads have at most `bytes_max` bytes together, unless the first alone has more.
    """
    lengths = array("I")
    payloads: list[bytes] = []
    room = bytes_max
    with closing(_batches(disk, live, first_lsn, last_lsn)) as batches:
        for batch in batches:
            its_lengths, payload = batch.lengths, batch.payload
            if batch.first_lsn < first_lsn:
                skip = first_lsn - batch.first_lsn
                payload = payload[sum(its_lengths[:skip]) :]
                its_lengths = its_lengths[skip:]
            if len(payload) > room:
                fitting = bisect_right(list(accumulate(its_lengths)), room)
                its_lengths = its_lengths[: max(fitting, 0 if lengths else 1)]
                payload = payload[: sum(its_lengths)]
                room = 0
            lengths += its_lengths
            payloads.append(payload)
            room -= len(payload)
            if room <= 0:
                break
    return Records(first_lsn, lengths, b"".join(payloads))


def _batches(
    disk: Disk, live: tuple[WalSegment, ...], first_lsn: int, last_lsn: int
) -> Generator[LogBatch, None, None]:
    """Return the batches that hold these records, cut off after the last one."""
    for segment, following in zip(live, (*live[1:], None), strict=True):
        end_lsn = last_lsn if following is None else min(last_lsn, following.first_lsn - 1)
        if max(first_lsn, segment.first_lsn) > end_lsn:
            continue
        fd = _open(disk, segment)
        try:
            cursor = Cursor.before(disk, fd, segment, first_lsn)
            while cursor.lsn <= end_lsn:
                batch = cursor.next(end_lsn)
                if isinstance(batch, Damage):
                    raise corrupt(segment.path, batch.at, batch.lsn, batch.why)
                if batch.last_lsn >= first_lsn:
                    yield batch
        finally:
            disk.close(fd)


def _open(disk: Disk, segment: WalSegment) -> int:
    try:
        fd = disk.open(segment.path)
    except FileNotFoundError as error:
        raise SegmentGone(segment.path) from error
    try:
        # After a truncation, a new segment can have the same name.
        if read_header(disk, fd, segment.path).salt != segment.salt:
            raise SegmentGone(segment.path)
    except BaseException:
        disk.close(fd)
        raise
    return fd
