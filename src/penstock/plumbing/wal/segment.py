"""A segment: one file of batches, named by the Lsn its first record has or will have.

Format: docs/reference/wal.md#segment. What always holds:

- A segment gets its name by a rename, when its header is durable. So a named segment has a right header, or is damaged.
- It begins a new life at its first Lsn: whatever an older segment (one with a lower serial) holds from that Lsn on is
  dead. Rolling over, truncating and dropping a torn tail are therefore one and the same act, and atomic.
- Its bytes are written once. Nothing is ever written over a record, except the very same bytes.
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Final

from penstock.kernel.errors import WalCorrupt
from penstock.kernel.formats import WAL_SEGMENT, check_version
from penstock.kernel.ids import Lsn
from penstock.plumbing.wal.checksum import has_crc, with_crc
from penstock.plumbing.wal.disk import Disk, read_fully, write_fully

__all__ = [
    "HEADER_BYTES",
    "SUFFIX",
    "TEMPORARY",
    "WalSegment",
    "corrupt",
    "create_segment",
    "read_header",
    "segment_name",
]

SUFFIX: Final = ".wal"
TEMPORARY: Final = ".tmp"
HEADER_BYTES: Final = 48
_HEADER = Struct("<8sIIQQQI")  # magic, version, chain, first lsn, serial, salt, zero; its own crc behind
_INDEX_EVERY_BYTES: Final = 64 * 1024

assert _HEADER.size + 4 == HEADER_BYTES


@dataclass(slots=True, eq=False)
class WalSegment:
    """The facts about one segment file. The sparse index grows while batches are written or scanned."""

    path: Path
    first_lsn: Lsn
    serial: int  # the higher one wins where two segments claim the same Lsn
    salt: int
    chain: int  # the crc of the record before the first one
    _lsns: "array[int]" = field(default_factory=lambda: array("Q"))
    _places: "array[int]" = field(default_factory=lambda: array("Q"))

    def note(self, lsn: int, at: int) -> None:
        """Note that a batch whose first record is `lsn` is at byte `at`. Only some are remembered."""
        if not self._places or at - self._places[-1] >= _INDEX_EVERY_BYTES:
            # Readers in other threads look the Lsn up first: when they find it, the place is known.
            self._places.append(at)
            self._lsns.append(lsn)

    def place_before(self, lsn: int) -> tuple[int, int]:
        """Return the byte where a batch begins, at or before the one that holds `lsn`, and its first Lsn."""
        slot = bisect_right(self._lsns, lsn) - 1
        return (self._places[slot], self._lsns[slot]) if slot >= 0 else (HEADER_BYTES, self.first_lsn)


def segment_name(first_lsn: int) -> str:
    return f"{first_lsn:020d}{SUFFIX}"


def create_segment(
    disk: Disk, folder: Path, *, first_lsn: Lsn, serial: int, salt: int, chain: int, reserve_bytes: int
) -> tuple[WalSegment, int]:
    """Make a segment under a temporary name, and when it is durable give it its own. Its open descriptor is returned.

    Space is reserved first: a full disk is found here, before any record is written.
    """
    path = folder / segment_name(first_lsn)
    temporary = path.with_name(path.name + TEMPORARY)
    segment = WalSegment(path, first_lsn, serial, salt, chain)
    fd = disk.create(temporary)
    try:
        disk.fallocate(fd, reserve_bytes)
        write_fully(disk, fd, _encode_header(segment), 0)
        disk.fdatasync(fd)
        disk.rename(temporary, path)
        disk.fsync_folder(folder)
    except BaseException:
        disk.close(fd)
        raise
    return segment, fd


def read_header(disk: Disk, fd: int, path: Path) -> WalSegment:
    """The segment a file holds, or an error if its header is not right."""
    data = read_fully(disk, fd, HEADER_BYTES, 0)
    if len(data) != HEADER_BYTES or not has_crc(data):
        raise _damaged(path, "its header does not match its checksum")
    magic, version, chain, first_lsn, serial, salt, _ = _HEADER.unpack_from(data)
    if magic != WAL_SEGMENT.magic:
        raise _damaged(path, "its header is not that of a WAL segment")
    check_version(WAL_SEGMENT, version, str(path))
    if path.name != segment_name(first_lsn):
        raise _damaged(path, f"its header says that it begins at lsn {first_lsn}")
    return WalSegment(path, Lsn(first_lsn), serial, salt, chain)


def _encode_header(segment: WalSegment) -> bytes:
    first = (WAL_SEGMENT.magic, WAL_SEGMENT.version, segment.chain, segment.first_lsn, segment.serial, segment.salt)
    return with_crc(_HEADER.pack(*first, 0))


def _damaged(path: Path, why: str) -> WalCorrupt:
    lsn = int(path.stem) if path.stem.isdecimal() else 0
    return corrupt(path, 0, lsn, why)


def corrupt(path: Path, at: int, lsn: int, why: str) -> WalCorrupt:
    """The error which names the place."""
    return WalCorrupt(
        f"{path} is damaged at byte {at}, lsn {lsn}: {why}",
        next_step="keep the folder for inspection, and restore this node from its peers or a backup",
        file=str(path),
        byte=at,
        lsn=lsn,
    )
