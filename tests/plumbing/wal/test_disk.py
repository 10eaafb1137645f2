import errno
import os
from pathlib import Path

import pytest

from penstock.kernel.errors import DiskFull, StorageError, Unavailable, Written
from penstock.plumbing.wal.disk import LocalDisk, lock_folder, make_folder, read_fully, storage_error, write_fully


class StingyDisk(LocalDisk):
    """Reads and writes at most three bytes at a time, and at last nothing."""

    def __init__(self, writes_max: int = 1000) -> None:
        self.writes_left = writes_max

    def pread(self, fd: int, count: int, at: int) -> bytes:
        return super().pread(fd, min(count, 3), at)

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int:
        self.writes_left -= 1
        return super().pwrite(fd, data[:3], at) if self.writes_left >= 0 else 0


def test_short_reads_and_writes_are_gone_on_with(tmp_path: Path) -> None:
    disk = StingyDisk()
    fd = disk.create(tmp_path / "file")
    write_fully(disk, fd, b"ten bytes!", 5)
    assert read_fully(disk, fd, 100, 0) == bytes(5) + b"ten bytes!"
    assert read_fully(disk, fd, 4, 5) == b"ten "
    assert read_fully(disk, fd, 4, 100) == b""
    disk.close(fd)


def test_a_write_which_makes_no_progress_is_an_error(tmp_path: Path) -> None:
    disk = StingyDisk(writes_max=2)
    fd = disk.create(tmp_path / "file")
    with pytest.raises(OSError, match="wrote nothing"):
        write_fully(disk, fd, b"ten bytes!", 0)
    disk.close(fd)


def test_space_is_reserved_and_reads_as_zeros(tmp_path: Path) -> None:
    disk = LocalDisk()
    fd = disk.create(tmp_path / "file")
    assert disk.fallocate(fd, 10_000)
    assert read_fully(disk, fd, 20_000, 0) == bytes(10_000)
    disk.fdatasync(fd)
    disk.close(fd)


def test_a_file_system_without_fallocate_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = LocalDisk()
    fd = disk.create(tmp_path / "file")

    def refuse(code: int) -> None:
        def posix_fallocate(fd: int, at: int, count: int) -> None:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "posix_fallocate", posix_fallocate)

    refuse(errno.EOPNOTSUPP)
    assert not disk.fallocate(fd, 10_000)
    refuse(errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        disk.fallocate(fd, 10_000)
    monkeypatch.delattr(os, "posix_fallocate")
    assert not disk.fallocate(fd, 10_000)
    assert read_fully(disk, fd, 1, 0) == b""
    disk.close(fd)


def test_a_created_file_takes_the_place_of_another(tmp_path: Path) -> None:
    disk = LocalDisk()
    (tmp_path / "file").write_bytes(b"old")
    disk.close(disk.create(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == b""


def test_folders_are_made_where_missing(tmp_path: Path) -> None:
    make_folder(LocalDisk(), tmp_path / "a" / "b" / "c")
    make_folder(LocalDisk(), tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_a_lock_is_held_until_it_is_closed(tmp_path: Path) -> None:
    disk = LocalDisk()
    fd = lock_folder(disk, tmp_path / "LOCK")
    with pytest.raises(Unavailable, match="in use") as caught:
        lock_folder(disk, tmp_path / "LOCK")
    assert "fuser" in caught.value.next_step
    disk.close(fd)
    disk.close(lock_folder(disk, tmp_path / "LOCK"))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_from_a_broken_one(code: int) -> None:
    full = storage_error(OSError(code, "x"), "writing a batch", written=Written.UNKNOWN)
    assert isinstance(full, DiskFull)
    assert full.written is Written.UNKNOWN
    broken = storage_error(OSError(errno.EIO, "x"), "writing a batch")
    assert type(broken) is StorageError
    assert broken.message == "writing a batch failed: Input/output error"
    assert broken.written is Written.NO
