from pathlib import Path

import pytest
from tests.plumbing.wal.disks import FaultyDisk, UnsyncedDisk

from penstock.kernel.errors import FormatTooNew, WalCorrupt
from penstock.kernel.ids import Lsn
from penstock.plumbing.wal.checksum import crc32c, with_crc
from penstock.plumbing.wal.segment import HEADER_BYTES, WalSegment, create_segment, read_header, segment_name


def made(folder: Path) -> WalSegment:
    disk = UnsyncedDisk()
    segment, fd = create_segment(
        disk, folder, first_lsn=Lsn(42), serial=3, salt=7, chain=0x11223344, reserve_bytes=4096
    )
    disk.close(fd)
    return segment


def reread(path: Path) -> WalSegment:
    disk = UnsyncedDisk()
    fd = disk.open(path)
    try:
        return read_header(disk, fd, path)
    finally:
        disk.close(fd)


def test_the_bytes_are_as_documented(tmp_path: Path) -> None:
    segment = made(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000042.wal"]
    head = b"".join(
        [
            b"PENSTWAL",
            (1).to_bytes(4, "little"),
            (0x11223344).to_bytes(4, "little"),
            (42).to_bytes(8, "little"),
            (3).to_bytes(8, "little"),
            segment.salt.to_bytes(8, "little"),
            bytes(4),
        ]
    )
    assert segment.path.read_bytes() == (head + crc32c(head).to_bytes(4, "little")).ljust(4096, b"\0")


def test_what_was_made_is_read_back(tmp_path: Path) -> None:
    segment = made(tmp_path)
    found = reread(segment.path)
    assert (found.path, found.first_lsn, found.serial, found.salt, found.chain) == (
        segment.path,
        42,
        3,
        segment.salt,
        0x11223344,
    )


def test_any_bit_of_the_header_changed_is_corruption(tmp_path: Path) -> None:
    path = made(tmp_path).path
    header = path.read_bytes()[:HEADER_BYTES]
    for bit in range(HEADER_BYTES * 8):
        changed = bytearray(header)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(WalCorrupt, match="damaged at byte 0, lsn 42"):
            reread(path)


def test_a_header_cut_short_is_corruption(tmp_path: Path) -> None:
    path = made(tmp_path).path
    header = path.read_bytes()[:HEADER_BYTES]
    for end in range(HEADER_BYTES):
        path.write_bytes(header[:end])
        with pytest.raises(WalCorrupt):
            reread(path)


def test_a_segment_under_the_name_of_another_is_corruption(tmp_path: Path) -> None:
    path = made(tmp_path).path
    moved = path.rename(tmp_path / segment_name(43))
    with pytest.raises(WalCorrupt, match="begins at lsn 42"):
        reread(moved)


def test_a_file_of_something_else_is_corruption(tmp_path: Path) -> None:
    path = tmp_path / segment_name(1)
    path.write_bytes(with_crc(b"SOMEELSE".ljust(HEADER_BYTES - 4, b"\0")))
    with pytest.raises(WalCorrupt, match="not that of a WAL segment"):
        reread(path)


def test_a_later_version_is_not_called_damage(tmp_path: Path) -> None:
    path = made(tmp_path).path
    header = bytearray(path.read_bytes()[: HEADER_BYTES - 4])
    header[8] = 2
    path.write_bytes(with_crc(bytes(header)))
    with pytest.raises(FormatTooNew, match="has version 2"):
        reread(path)


def test_space_is_reserved_before_anything_is_written(tmp_path: Path) -> None:
    disk = FaultyDisk(UnsyncedDisk())
    _, fd = create_segment(disk, tmp_path, first_lsn=Lsn(1), serial=1, salt=7, chain=0, reserve_bytes=4096)
    disk.close(fd)
    assert disk.calls == ["create", "fallocate", "pwrite", "fdatasync", "rename", "fsync_folder", "close"]


def test_a_batch_is_found_from_a_place_before_it(tmp_path: Path) -> None:
    segment = WalSegment(tmp_path / "x", Lsn(10), 1, 2, 3)
    assert segment.place_before(500) == (HEADER_BYTES, 10)
    for number in range(100):
        segment.note(10 + number, HEADER_BYTES + 10_000 * number)
    assert segment.place_before(10) == (HEADER_BYTES, 10)
    for lsn in range(10, 110):
        at, first_lsn = segment.place_before(lsn)
        assert first_lsn <= lsn
        assert at == HEADER_BYTES + 10_000 * (first_lsn - 10)
        assert lsn - first_lsn < 7
    assert len(segment._places) == 15
