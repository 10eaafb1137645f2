"""The simulated disk does what every disk does, and what only it can do: fail, lose, tear."""

import errno
from pathlib import Path

import pytest
from tests.lab.world.inside import new_process
from tests.plumbing.ports import disk_behaviours
from tests.plumbing.ports.disk_behaviours import *  # noqa: F403

from penstock.plumbing.ports.disk import FileSystem
from penstock_lab.world.ports.disk import SimulatedDisk
from penstock_lab.world.process import Life

__all__ = disk_behaviours.__all__


@pytest.fixture
def disk() -> FileSystem:
    return new_process().disk


@pytest.fixture
def root(disk: FileSystem) -> Path:
    disk.make_folders(Path("/data"))
    return Path("/data")


def written(disk: SimulatedDisk, path: Path, data: bytes) -> int:
    fd = disk.create(path)
    assert disk.pwrite(fd, data, 0) == len(data)
    return fd


def test_what_was_synced_survives_every_loss_of_power() -> None:
    kept = set()
    for seed in range(30):
        process = new_process(seed)
        disk, root = process.disk, Path("/data")
        disk.make_folders(root)
        disk.fsync_folder(Path("/"))
        fd = written(disk, root / "synced", b"synced")
        disk.fdatasync(fd)
        disk.fsync_folder(root)
        disk.pwrite(fd, b"more", 6)
        written(disk, root / "unsynced", b"unsynced")
        process.machine.lose_power()
        found = new_life(process).disk
        assert found.read_file(root / "synced")[:6] == b"synced"
        unsynced = found.read_file(root / "unsynced") if found.exists(root / "unsynced") else None
        kept.add((found.read_file(root / "synced"), unsynced))
    assert (b"synced", None) in kept
    assert (b"syncedmore", b"unsynced") in kept, "unsynced bytes may survive, too"
    assert len(kept) > 4, "and some of them"


def new_life(process: Life) -> Life:
    process.machine.lives += 1
    process.machine.process = Life(process.machine, lambda _: None)
    return process.machine.process


def test_a_rename_survives_whole_or_not_at_all() -> None:
    seen = set()
    for seed in range(20):
        process = new_process(seed)
        disk = process.disk
        for name in ("a", "b"):
            disk.make_folders(Path("/", name))
        disk.fdatasync(written(disk, Path("/a/file"), b"1"))
        for name in ("", "a", "b"):
            disk.fsync_folder(Path("/", name))
        disk.rename(Path("/a/file"), Path("/b/file"))
        process.machine.lose_power()
        seen.add(tuple(new_life(process).disk.walk(Path("/"))))
    assert seen == {(Path("/a/file"),), (Path("/b/file"),)}


def test_a_kill_keeps_the_page_cache_and_frees_locks() -> None:
    process = new_process()
    process.disk.make_folders(Path("/data"))
    process.disk.lock(Path("/data/lock"))
    written(process.disk, Path("/data/file"), b"unsynced")
    process.kill()
    with pytest.raises(OSError, match="Input/output"):
        process.disk.create(Path("/data/of the dead"))
    again = new_life(process).disk
    assert again.read_file(Path("/data/file")) == b"unsynced"
    again.lock(Path("/data/lock"))


def test_a_full_disk_takes_what_it_has_blocks_for() -> None:
    disk = new_process().disk
    disk.make_folders(Path("/data"))
    fd = written(disk, Path("/data/file"), b"12345")
    disk.reserve(fd, 0, 8)
    disk.files.trouble.is_full = True
    assert (disk.pwrite(fd, b"6789", 5), disk.free_bytes(Path("/data"))) == (3, 0)
    with pytest.raises(OSError, match="No space"):
        disk.pwrite(fd, b"9", 8)
    with pytest.raises(OSError, match="No space"):
        disk.create(Path("/data/new"))
    disk.files.trouble.is_full = False
    assert disk.pwrite(fd, b"9", 8) == 1


def test_a_failed_sync_loses_what_it_should_have_written() -> None:
    process = new_process()
    disk = process.disk
    disk.make_folders(Path("/data"))
    disk.fsync_folder(Path("/"))
    fd = written(disk, Path("/data/file"), b"1")
    disk.fsync_folder(Path("/data"))
    disk.files.trouble.sync_code = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        disk.fdatasync(fd)
    disk.files.trouble.sync_code = 0
    disk.fdatasync(fd)
    assert disk.pread(fd, 1, 0) == b"1", "the cache still shows it"
    process.machine.lose_power()
    assert new_life(process).disk.read_file(Path("/data/file")) == b""
