"""A batch: the records that one write and one fdatasync made durable, and their layout on disk.

    head 40 bytes | a length per record | a crc per record | the payloads        (all numbers little-endian)

Format: docs/reference/wal.md#batch. What always holds:

- A batch is written only when everything before it is durable. So a right head proves that every batch before it was
  once on the disk. A batch without records is a mark: it is written for the sake of that proof alone.
- A record's crc continues the crc of the record before it (the chain), over its payload. The crc of the last record is
  therefore the crc of all payloads in one: a whole batch is checked by one call.
- The salt is that of the segment, drawn at random when the segment is made: bytes of another life never pass.
"""

import sys
from array import array
from itertools import accumulate
from struct import Struct
from typing import Final

import msgspec
from google_crc32c import extend

from penstock.plumbing.wal.checksum import crc32c, has_crc, with_crc

__all__ = [
    "HEAD_BYTES",
    "INDEX_BYTES",
    "MAGIC",
    "BatchHead",
    "crcs_in",
    "decode_head",
    "encode",
    "is_index",
    "lengths_in",
]

MAGIC: Final = b"PnB1"
HEAD_BYTES: Final = 40
INDEX_BYTES: Final = 8  # per record: its length and its crc
_HEAD = Struct("<4sIQQIII")  # magic, count, first lsn, salt, payload bytes, chain, crc of the index; its own crc behind
_BIG_ENDIAN = sys.byteorder == "big"

assert _HEAD.size + 4 == HEAD_BYTES
assert array("I").itemsize == 4


class BatchHead(msgspec.Struct, frozen=True, gc=False):
    """The first 40 bytes of a batch, found right."""

    count: int  # of records; 0 is a mark
    first_lsn: int
    salt: int
    payload_bytes: int
    chain: int  # the crc of the record before the first one
    index_crc: int


def encode(records: list[bytes], first_lsn: int, salt: int, chain: int) -> tuple[bytes, int]:
    """Return the bytes of a batch, and the chain after it."""
    crcs = array("I", accumulate(records, extend, initial=chain))
    lengths = array("I", map(len, records))
    index = _to_bytes(lengths) + _to_bytes(crcs[1:])
    head = _HEAD.pack(MAGIC, len(records), first_lsn, salt, sum(lengths), chain, crc32c(index))
    return b"".join((with_crc(head), index, *records)), crcs[-1]


def decode_head(data: bytes, at: int, salt: int) -> BatchHead | None:
    """The head at this place, or None if these bytes are no head of a segment with this salt."""
    if len(data) < at + HEAD_BYTES or not has_crc(data[at : at + HEAD_BYTES]):
        return None
    magic, count, first_lsn, its_salt, payload_bytes, chain, index_crc = _HEAD.unpack_from(data, at)
    if magic != MAGIC or its_salt != salt:
        return None
    return BatchHead(count, first_lsn, salt, payload_bytes, chain, index_crc)


def is_index(head: BatchHead, data: bytes) -> bool:
    """Return whether these bytes are the index that belongs to the head."""
    return len(data) == INDEX_BYTES * head.count and crc32c(data) == head.index_crc


def lengths_in(index: bytes) -> "array[int]":
    """The length of each record."""
    return _from_bytes(index[: len(index) // 2])


def crcs_in(index: bytes) -> "array[int]":
    """The crc of each record."""
    return _from_bytes(index[len(index) // 2 :])


def _to_bytes(numbers: "array[int]") -> bytes:
    if _BIG_ENDIAN:
        numbers.byteswap()
    data = numbers.tobytes()
    if _BIG_ENDIAN:
        numbers.byteswap()
    return data


def _from_bytes(data: bytes) -> "array[int]":
    numbers = array("I")
    numbers.frombytes(data)
    if _BIG_ENDIAN:
        numbers.byteswap()
    return numbers
