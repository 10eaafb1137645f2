"""Small logs for tests, and ways to look at them and to spoil them."""

from pathlib import Path

from tests.plumbing.wal.disks import UnsyncedDisk

from penstock.kernel.ids import Lsn
from penstock.plumbing.wal.disk import Disk
from penstock.plumbing.wal.records import read_records
from penstock.plumbing.wal.segments import Segments

SEGMENT_BYTES = 4096


def open_log(folder: Path, disk: Disk | None = None) -> Segments:
    return Segments.open(disk or UnsyncedDisk(), folder, SEGMENT_BYTES)[0]


def add(segments: Segments, *records: bytes) -> Lsn:
    """One batch."""
    segments.make_room(sum(map(len, records)) + 8 * len(records))
    segments.write(list(records))
    return segments.last_lsn


def contents(segments: Segments) -> list[bytes]:
    """All records."""
    if segments.first_lsn > segments.last_lsn:
        return []
    disk = UnsyncedDisk()
    return [
        bytes(record) for record in read_records(disk, segments.live, segments.first_lsn, segments.last_lsn, 1 << 30)
    ]


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
