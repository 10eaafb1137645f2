"""A cursor: walks the batches of one segment file, and checks everything it passes.

Recovery and readers both walk by it, so that what recovery calls right is what readers can read. It stops at the first
thing which is not right and says exactly what and where; what that means (the end, a torn tail, corruption) it does not
judge: see recovery.py.
"""

from array import array
from itertools import accumulate
from typing import Final

import msgspec

from penstock.plumbing.wal.batch import (
    HEAD_BYTES,
    INDEX_BYTES,
    MAGIC,
    BatchHead,
    crcs_in,
    decode_head,
    is_index,
    lengths_in,
)
from penstock.plumbing.wal.checksum import crc32c
from penstock.plumbing.wal.disk import Disk, read_fully
from penstock.plumbing.wal.segment import WalSegment

__all__ = ["Cursor", "Damage", "LogBatch", "find_head", "is_blank"]

READ_BYTES: Final = 256 * 1024  # at once: stays in the cache of a core until it is checked
_ZEROS: Final = bytes(READ_BYTES)


class LogBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch as it was found, right in all its parts. Records after the asked Lsn are cut off."""

    at: int
    first_lsn: int
    index: bytes  # of all records, also those cut off
    payload: bytes
    count: int  # of records in `payload`
    chain: int  # the crc of the last of them

    @property
    def last_lsn(self) -> int:
        return self.first_lsn + self.count - 1

    @property
    def payload_at(self) -> int:
        return self.at + HEAD_BYTES + len(self.index)

    @property
    def end(self) -> int:
        return self.payload_at + len(self.payload)

    @property
    def lengths(self) -> "array[int]":
        """Return the Lsn of the last record in `payload`."""
        return lengths_in(self.index)[: self.count]


class Damage(msgspec.Struct, frozen=True):
    """Where a cursor had to stop: not always damage, the unwritten end of a segment looks the same to it."""

    at: int  # the byte where the first wrong thing begins
    lsn: int  # the first record which cannot be read
    why: str
    batch_at: int  # where the batch begins in which this happened
    is_misplaced: bool = False  # a valid segment head in a place where no crash leaves one
    intact: LogBatch | None = None  # that batch with the records before the damage, if any


class Cursor:
    """Reads forward from the start of a batch."""

    def __init__(
        self,
        disk: Disk,
        fd: int,
        segment: WalSegment,
        *,
        at: int,
        chain: int | None,
        lsn: int,
        read_bytes: int = READ_BYTES,
    ) -> None:
        self.at = at
        self.lsn = lsn  # of the next record
        self.chain = chain  # what the next batch must continue; None if not known
        self._disk = disk
        self._fd = fd
        self._salt = segment.salt
        self._read_bytes = read_bytes
        self._window = b""
        self._window_at = at

    @classmethod
    def before(cls, disk: Disk, fd: int, segment: WalSegment, lsn: int) -> "Cursor":
        """A cursor a little before the batch which holds `lsn`, or at it."""
        at, first_lsn = segment.place_before(lsn)
        return cls(disk, fd, segment, at=at, chain=None, lsn=first_lsn)

    def next(self, last_lsn: int) -> LogBatch | Damage:
        """The next batch, with its records up to `last_lsn`. Of the later ones, not even the bytes need exist."""
        head = decode_head(self._bytes(self.at, HEAD_BYTES), 0, self._salt)
        if head is None:
            return self._damage("no batch begins here")
        if head.first_lsn != self.lsn:
            return self._damage(f"there is a batch of lsn {head.first_lsn} here", is_misplaced=True)
        if self.chain is not None and head.chain != self.chain:
            return self._damage("the batch does not continue the record before it", is_misplaced=True)
        index = self._bytes(self.at + HEAD_BYTES, INDEX_BYTES * head.count)
        if not is_index(head, index):
            return self._damage("the batch's index does not match its checksum")
        return self._payload(head, index, min(head.count, last_lsn - head.first_lsn + 1))

    def _payload(self, head: BatchHead, index: bytes, count: int) -> LogBatch | Damage:
        """The rest of a batch whose head and index are right: its first `count` records."""
        if count == head.count:
            payload_bytes = head.payload_bytes
            crc = int.from_bytes(index[-4:], "little") if count else head.chain
        else:
            payload_bytes = sum(lengths_in(index)[:count])
            crc = crcs_in(index)[count - 1]
        payload_at = self.at + HEAD_BYTES + len(index)
        payload = self._bytes(payload_at, payload_bytes)
        if len(payload) != payload_bytes or crc32c(payload, head.chain) != crc:
            return _first_wrong(self.at, head, index, payload)
        batch = LogBatch(self.at, head.first_lsn, index, payload, count, crc)
        self.at = payload_at + payload_bytes
        self.lsn = head.first_lsn + count
        self.chain = crc
        return batch

    def _bytes(self, at: int, count: int) -> bytes:
        """Bytes of the file; fewer at its end. Calls come in rising order."""
        start = at - self._window_at
        if start + count > len(self._window):
            self._window = read_fully(self._disk, self._fd, max(count, self._read_bytes), at)
            self._window_at = at
            start = 0
        return self._window[start : start + count]

    def _damage(self, why: str, *, is_misplaced: bool = False) -> Damage:
        return Damage(self.at, self.lsn, why, self.at, is_misplaced)


def _first_wrong(at: int, head: BatchHead, index: bytes, payload: bytes) -> Damage:
    """Return the first wrong record of a batch, and the batch as far as it is right."""
    chain = head.chain
    start = 0
    count = 0
    for end, crc in zip(accumulate(lengths_in(index)), crcs_in(index), strict=True):
        if end > len(payload) or crc32c(payload[start:end], chain) != crc:
            break
        start, chain = end, crc
        count += 1
    intact = LogBatch(at, head.first_lsn, index, payload[:start], count, chain) if count else None
    place = at + HEAD_BYTES + len(index) + start
    return Damage(place, head.first_lsn + count, "the record does not match its checksum", at, intact=intact)


def find_head(disk: Disk, fd: int, segment: WalSegment, *, at: int, lsn: int) -> tuple[int, BatchHead] | None:
    """The first right head at or behind byte `at` of a batch which begins at or behind `lsn`."""
    while True:
        window = read_fully(disk, fd, READ_BYTES, at)
        place = window.find(MAGIC)
        while place >= 0:
            head = decode_head(window, place, segment.salt)
            if head is not None and head.first_lsn >= lsn:
                return at + place, head
            place = window.find(MAGIC, place + 1)
        if len(window) < READ_BYTES:
            return None
        at += READ_BYTES - HEAD_BYTES + 1  # a head may lie across the border of two windows


def is_blank(disk: Disk, fd: int, at: int) -> bool:
    """Return whether there are only zeros from here to the end of the file."""
    while window := read_fully(disk, fd, READ_BYTES, at):
        if window != _ZEROS[: len(window)]:
            return False
        at += len(window)
    return True
