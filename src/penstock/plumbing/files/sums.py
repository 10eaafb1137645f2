"""Sums of blocks: one CRC-32C for each 64 KiB of some bytes, so that any range of them can be checked. Design:
integrity.md D5 to D7.

    [magic 8][version 4][block size 4][size 8][subject 16][crc32c 4]...[crc32c 4 of all before]

What always holds: `Comparing` gives no byte before its whole block was compared. The subject binds the sums to the name
of the bytes, so sums of other bytes of equal size count as missing.
"""

import hashlib
from collections.abc import Iterator
from struct import Struct
from typing import Final

import google_crc32c
import msgspec

from penstock.kernel.errors import DataDamaged

__all__ = [
    "BLOCK_BYTES",
    "SUMS_MAGIC",
    "SUMS_VERSION",
    "BlockSums",
    "Comparing",
    "Summing",
    "decode_sums",
    "encode_sums",
    "is_whole",
    "subject_of",
    "version_of_sums",
]

BLOCK_BYTES: Final = 64 << 10
SUMS_MAGIC: Final = b"PENSSUMS"
SUMS_VERSION: Final = 1
_CRC_BYTES: Final = 4
_HEAD: Final = Struct("<8sIIQ16s")


class BlockSums(msgspec.Struct, frozen=True):
    """The sums of `size` bytes."""

    size: int
    crcs: bytes  # four bytes for each block

    def crc(self, block: int) -> bytes:
        """Return the sum of one block."""
        return self.crcs[block * _CRC_BYTES : (block + 1) * _CRC_BYTES]

    def widened(self, start: int, end: int) -> tuple[int, int]:
        """Return the whole blocks around a range.

        >>> BlockSums(100_000, b"").widened(70_000, 70_001)
        (65536, 100000)
        """
        return start - start % BLOCK_BYTES, min(-(-end // BLOCK_BYTES) * BLOCK_BYTES, self.size)


class Summing:
    """Makes the sums of bytes as they come."""

    def __init__(self) -> None:
        self.size = 0
        self._crcs = bytearray()  # of the finished blocks
        self._crc = 0  # of the last one, as far as it has come

    def add(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes at the end."""
        view = memoryview(data).cast("B")
        at = 0
        while at < len(view):
            room = BLOCK_BYTES - self.size % BLOCK_BYTES
            piece = view[at : at + room]
            self._crc = google_crc32c.extend(self._crc, bytes(piece))
            self.size += len(piece)
            at += len(piece)
            if len(piece) == room:
                self._crcs += self._crc.to_bytes(_CRC_BYTES, "little")
                self._crc = 0

    def cut(self, size: int) -> int:
        """Forget all bytes from `size` on; return the offset from which bytes must be added again."""
        if size < self.size:
            self.size = size - size % BLOCK_BYTES
            del self._crcs[self.size // BLOCK_BYTES * _CRC_BYTES :]
            self._crc = 0
        return self.size

    def crc(self, block: int) -> int:
        """Return the sum of one block, the last one included as far as it has come."""
        at = block * _CRC_BYTES
        return int.from_bytes(self._crcs[at : at + _CRC_BYTES], "little") if at < len(self._crcs) else self._crc

    @property
    def sums(self) -> BlockSums:
        """The sums of all bytes up to now."""
        last = self._crc.to_bytes(_CRC_BYTES, "little") if self.size % BLOCK_BYTES else b""
        return BlockSums(self.size, bytes(self._crcs) + last)


class Comparing:
    """Compares bytes with their sums as they come, from the begin of a block on."""

    def __init__(self, sums: BlockSums, start: int, where: str) -> None:
        """`where` names the object in an error."""
        assert start % BLOCK_BYTES == 0, start
        self._sums = sums
        self._where = where
        self._at = start  # of the block that is incomplete
        self._length = 0  # of it, up to now
        self._crc = 0
        self._held: list[memoryview] = []

    def feed(self, data: bytes | memoryview) -> Iterator[memoryview]:
        """Yield the bytes of the blocks that are now complete. `DataDamaged`: a block has another sum."""
        view = memoryview(data).cast("B")
        at = good = 0  # ends in the view: of the summed bytes, of the last block that matched
        while at < len(view):
            block_end = min(self._at + BLOCK_BYTES, self._sums.size)
            piece = view[at : at + block_end - self._at - self._length]
            if not piece:
                raise DataDamaged(f"{self._where} has more than {self._sums.size} bytes", next_step=_NEXT)
            self._crc = google_crc32c.extend(self._crc, bytes(piece))
            self._length += len(piece)
            at += len(piece)
            if self._at + self._length == block_end:
                if self._found() != self._expected():
                    yield from _if_any(view[:good])
                    raise self._damaged(block_end)
                held, self._held = self._held, []
                yield from held
                self._at, self._length, self._crc, good = block_end, 0, 0, at
        yield from _if_any(view[:good])
        self._held += _if_any(view[good:])

    def _found(self) -> bytes:
        return self._crc.to_bytes(_CRC_BYTES, "little")

    def _expected(self) -> bytes:
        return self._sums.crc(self._at // BLOCK_BYTES)

    def _damaged(self, end: int) -> DataDamaged:
        found, expected = self._found().hex(), self._expected().hex()
        return DataDamaged(
            f"{self._where}: bytes [{self._at}, {end}) have the sum {found}, expected {expected}",
            next_step=_NEXT,
            object=self._where,
            begin=self._at,
            end=end,
        )

    def finish(self, end: int) -> None:
        """Check that all bytes up to `end` came."""
        if self._at < end:
            raise DataDamaged(
                f"{self._where} is cut short: its bytes end at {self._at + self._length}, expected {end}",
                next_step=_NEXT,
                object=self._where,
                begin=self._at,
                end=end,
            )


_NEXT: Final = "penstock fsck --store URL --deep, then restore the object from a copy"


def _if_any(piece: memoryview) -> list[memoryview]:
    return [piece] if piece else []


def subject_of(name: str, digest: bytes) -> bytes:
    """Return what binds sums to some bytes: the name that they have, and the digest of their content if it is known."""
    bound: bytes = hashlib.blake2b(name.encode() + b"\0" + digest, digest_size=16).digest()
    return bound


def encode_sums(sums: BlockSums, subject: bytes) -> bytes:
    """Return the sums as a file."""
    body = _HEAD.pack(SUMS_MAGIC, SUMS_VERSION, BLOCK_BYTES, sums.size, subject) + sums.crcs
    return body + _crc(body)


def _crc(data: bytes) -> bytes:
    crc: int = google_crc32c.value(data)
    return crc.to_bytes(_CRC_BYTES, "little")


def is_whole(data: bytes) -> bool:
    """Return whether a file of sums is as it was written, whatever object it is about."""
    return len(data) >= _HEAD.size + _CRC_BYTES and data.startswith(SUMS_MAGIC) and _crc(data[:-4]) == data[-4:]


def version_of_sums(data: bytes) -> int | None:
    """Return the version of a file of sums; None if it is none."""
    if len(data) < _HEAD.size or not data.startswith(SUMS_MAGIC):
        return None
    return int(_HEAD.unpack_from(data)[1])


def decode_sums(data: bytes, subject: bytes) -> BlockSums | None:
    """Return the sums in a file; None if they are damaged, of a newer version, or those of other bytes."""
    if len(data) < _HEAD.size + _CRC_BYTES:
        return None
    magic, version, block_bytes, size, of = _HEAD.unpack_from(data)
    if (magic, version, block_bytes, of) != (SUMS_MAGIC, SUMS_VERSION, BLOCK_BYTES, subject):
        return None
    if _crc(data[:-_CRC_BYTES]) != data[-_CRC_BYTES:]:
        return None
    crcs = data[_HEAD.size : -_CRC_BYTES]
    return BlockSums(size, crcs) if len(crcs) == _CRC_BYTES * -(-size // BLOCK_BYTES) else None
