"""Snapshots: complete or not there, checked when they are read, bounded in number."""

from pathlib import Path

import pytest

from penstock.kernel.errors import FormatTooNew, WalCorrupt
from penstock.kernel.formats import SNAPSHOT
from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, Offset
from penstock.plumbing.ports.ports import system_ports
from penstock.quorum.node.snapshots import Snapshots


def head(offset: int, epoch: int = 1) -> EntryId:
    return EntryId(Epoch(epoch), Offset(offset))


async def test_a_snapshot_travels_in_parts_and_is_the_same_at_the_end(tmp_path: Path) -> None:
    here, there = Snapshots(tmp_path / "a", system_ports().disk), Snapshots(tmp_path / "b", system_ports().disk)
    data = bytes(range(256)) * 40
    await here.take(head(7), data)
    position, is_last = 0, False
    while not is_last:
        part, is_last = await here.read(head(7), position, 1000)
        assert part is not None
        position = await there.write(head(7), position, part, is_last=is_last)
    assert await there.load(head(7)) == data
    assert await there.load(NO_ENTRY) == b""


async def test_a_part_written_again_replaces_what_came_behind_it(tmp_path: Path) -> None:
    here, there = Snapshots(tmp_path / "a", system_ports().disk), Snapshots(tmp_path / "b", system_ports().disk)
    await here.take(head(7), b"x" * 100)
    whole, _ = await here.read(head(7), 0, 1000)
    assert whole is not None
    await there.write(head(7), 0, b"garbage of an earlier try" * 10, is_last=False)
    await there.write(head(7), 0, whole[:50], is_last=False)
    await there.write(head(7), 50, whole[50:], is_last=True)
    assert await there.load(head(7)) == b"x" * 100


async def test_an_unfinished_snapshot_is_not_there(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, system_ports().disk)
    await snapshots.write(head(7), 0, b"half", is_last=False)
    assert await snapshots.read(head(7), 0, 100) == (None, True)
    with pytest.raises(WalCorrupt, match="is gone"):
        await snapshots.load(head(7))


async def test_a_damaged_snapshot_is_refused_with_its_name(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, system_ports().disk)
    await snapshots.take(head(7), b"x" * 100)
    (path,) = tmp_path.glob("*.snapshot")
    damaged = bytearray(path.read_bytes())
    damaged[50] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(WalCorrupt, match=path.name):
        await snapshots.load(head(7))


async def test_a_damaged_transfer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WalCorrupt, match="does not match its checksum"):
        await Snapshots(tmp_path, system_ports().disk).write(head(7), 0, b"not a snapshot", is_last=True)


async def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, system_ports().disk)
    for offset in (5, 10, 20, 100):
        await snapshots.take(head(offset), b"x")
    await snapshots.keep_newest()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0000000001-00000000000000000020.snapshot",
        "0000000001-00000000000000000100.snapshot",
    ]


async def test_a_snapshot_of_level_0_is_written_and_read(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, system_ports().disk)
    await snapshots.take(head(7), b"PENS" * 100, version=0)
    assert len(next(tmp_path.glob("*.snapshot")).read_bytes()) == 404
    assert await snapshots.load(head(7)) == b"PENS" * 100


async def test_a_snapshot_of_another_release_is_refused_by_name(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path, system_ports().disk)
    await snapshots.take(head(7), b"x" * 100, version=SNAPSHOT.version + 1)
    with pytest.raises(FormatTooNew, match=r"\.snapshot \(snapshot\) has version 2"):
        await snapshots.load(head(7))
    with pytest.raises(WalCorrupt):
        await snapshots.write(head(8), 0, SNAPSHOT.magic + b"123", is_last=True)
