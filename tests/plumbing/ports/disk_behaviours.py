"""What every disk must do. A test module gives `disk` and `root`, an empty folder on it, and imports all of this."""

import errno
from pathlib import Path

import pytest

from penstock.plumbing.ports.disk import FileSystem, is_full

__all__ = [
    "test_a_cut_file_reads_as_zeros_when_it_grows_again",
    "test_a_file_keeps_its_bytes_until_the_last_descriptor_is_closed",
    "test_a_folder_takes_its_files_with_it",
    "test_a_missing_file_is_named",
    "test_a_rename_replaces",
    "test_folders_are_made_and_removed_whole",
    "test_one_lock_at_a_time",
    "test_room_does_not_change_a_length",
    "test_what_was_written_is_read",
]


def content(disk: FileSystem, path: Path, data: bytes) -> None:
    fd = disk.create(path)
    assert disk.pwrite(fd, data, 0) == len(data)
    disk.close(fd)


def test_what_was_written_is_read(disk: FileSystem, root: Path) -> None:
    fd = disk.create_new(root / "file")
    assert disk.pwritev(fd, [memoryview(b"some "), memoryview(b"content")], 2) == 12
    assert disk.pwrite(fd, memoryview(b"!"), 14) == 1
    assert (disk.size(fd), disk.pread(fd, 100, 0), disk.pread(fd, 4, 2)) == (15, b"\0\0some content!", b"some")
    assert disk.pread(fd, 4, 15) == b""
    disk.fdatasync(fd)
    disk.close(fd)
    disk.fsync_folder(root)
    assert disk.read_file(root / "file") == b"\0\0some content!"
    with pytest.raises(FileExistsError):
        disk.create_new(root / "file")
    disk.close(disk.create(root / "file"))
    assert disk.read_file(root / "file") == b""


def test_a_cut_file_reads_as_zeros_when_it_grows_again(disk: FileSystem, root: Path) -> None:
    fd = disk.create(root / "file")
    disk.pwrite(fd, b"content", 0)
    disk.ftruncate(fd, 3)
    disk.pwrite(fd, b"x", 6)
    assert disk.pread(fd, 10, 0) == b"con\0\0\0x"
    disk.close(fd)


def test_a_file_keeps_its_bytes_until_the_last_descriptor_is_closed(disk: FileSystem, root: Path) -> None:
    content(disk, root / "file", b"old")
    fd = disk.open(root / "file")
    disk.unlink(root / "file")
    content(disk, root / "file", b"new")
    assert (disk.pread(fd, 9, 0), disk.read_file(root / "file")) == (b"old", b"new")
    disk.close(fd)
    unnamed = disk.temporary(None)
    disk.pwrite(unnamed, b"spool", 0)
    assert disk.pread(unnamed, 9, 0) == b"spool"
    disk.close(unnamed)


def test_a_missing_file_is_named(disk: FileSystem, root: Path) -> None:
    for call in (disk.open, disk.read_file, disk.unlink, disk.names, disk.fsync_folder):
        with pytest.raises(FileNotFoundError):
            call(root / "nothing")
    with pytest.raises(FileNotFoundError):
        disk.create(root / "nowhere" / "file")
    with pytest.raises(FileNotFoundError):
        disk.rename(root / "nothing", root / "something")
    with pytest.raises(FileNotFoundError):
        disk.mkdir(root / "nowhere" / "folder")
    disk.remove(root / "nothing")
    disk.remove_tree(root / "nothing")
    assert (disk.walk(root / "nothing"), disk.exists(root / "nothing")) == ([], False)


def test_a_rename_replaces(disk: FileSystem, root: Path) -> None:
    content(disk, root / "old", b"old")
    content(disk, root / "new", b"new")
    disk.rename(root / "new", root / "old")
    assert (disk.names(root), disk.read_file(root / "old")) == (["old"], b"new")


def test_a_folder_takes_its_files_with_it(disk: FileSystem, root: Path) -> None:
    disk.make_folders(root / "a" / "b")
    content(disk, root / "a" / "b" / "file", b"here")
    disk.mkdir(root / "c")
    disk.rename(root / "a", root / "c" / "d")
    assert disk.walk(root) == [root / "c" / "d" / "b" / "file"]
    assert disk.read_file(root / "c" / "d" / "b" / "file") == b"here"


def test_folders_are_made_and_removed_whole(disk: FileSystem, root: Path) -> None:
    disk.make_folders(root / "a" / "b")
    disk.make_folders(root / "a" / "b")
    with pytest.raises(FileExistsError):
        disk.mkdir(root / "a")
    content(disk, root / "a" / "b" / "two", b"")
    content(disk, root / "a" / "one", b"")
    assert disk.walk(root) == [root / "a" / "b" / "two", root / "a" / "one"]
    assert sorted(disk.names(root / "a")) == ["b", "one"]
    disk.remove_tree(root / "a")
    assert (disk.exists(root / "a"), disk.walk(root)) == (False, [])


def test_one_lock_at_a_time(disk: FileSystem, root: Path) -> None:
    held = disk.lock(root / "lock")
    with pytest.raises(BlockingIOError):
        disk.lock(root / "lock")
    disk.close(held)
    disk.close(disk.lock(root / "lock"))


def test_room_does_not_change_a_length(disk: FileSystem, root: Path) -> None:
    fd = disk.create(root / "file")
    disk.reserve(fd, 0, 1 << 16)
    assert disk.size(fd) == 0
    disk.pwrite(fd, b"content", 0)
    disk.release(fd)
    assert disk.size(fd) == 7
    assert disk.free_bytes(root / "no" / "folder") > 0
    disk.close(fd)
    assert [is_full(OSError(code, "")) for code in (errno.ENOSPC, errno.EDQUOT, errno.EIO)] == [True, True, False]
