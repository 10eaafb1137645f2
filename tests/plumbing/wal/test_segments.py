from pathlib import Path

import pytest
from tests.plumbing.wal.disks import FaultyDisk, UnsyncedDisk
from tests.plumbing.wal.logs import SEGMENT_BYTES, add, contents, open_log

from penstock.kernel.errors import StorageError, Unavailable, WalCorrupt
from penstock.kernel.ids import Lsn
from penstock.plumbing.wal.batch import HEAD_BYTES
from penstock.plumbing.wal.segment import HEADER_BYTES
from penstock.plumbing.wal.segments import Segments


def names(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.wal"))


def fill(segments: Segments, count: int, size: int = 1000) -> list[bytes]:
    """One record to a batch; three of 1000 bytes to a segment."""
    records = [b"%d" % (segments.last_lsn + 1 + number) * size for number in range(count)]
    records = [record[:size] for record in records]
    for record in records:
        add(segments, record)
    return records


def test_a_batch_is_one_write_and_one_fdatasync(tmp_path: Path) -> None:
    disk = FaultyDisk(UnsyncedDisk())
    segments = open_log(tmp_path, disk)
    disk.calls.clear()
    add(segments, *[b"record"] * 100)
    assert disk.calls == ["pwrite", "fdatasync"]
    assert (segments.first_lsn, segments.last_lsn) == (1, 100)
    segments.close()


def test_a_new_segment_begins_where_a_batch_does_not_fit(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    records = fill(segments, 7)
    assert names(tmp_path) == [1, 4, 7]
    assert all(path.stat().st_size == SEGMENT_BYTES for path in tmp_path.glob("*.wal"))
    assert contents(segments) == records
    segments.close()


def test_a_batch_fits_with_room_for_a_mark_behind_it(tmp_path: Path) -> None:
    body_bytes = SEGMENT_BYTES - HEADER_BYTES - 2 * HEAD_BYTES
    for number, (size, expected) in enumerate([(body_bytes, [1]), (body_bytes + 1, [1])]):
        folder = tmp_path / str(number)
        segments = open_log(folder)
        segments.make_room(size)
        assert names(folder) == expected  # an empty segment takes any batch
        segments.close()
    segments = open_log(tmp_path)
    add(segments, b"")
    left_bytes = body_bytes - HEAD_BYTES - 8
    segments.make_room(left_bytes)
    assert names(tmp_path) == [1]
    segments.make_room(left_bytes + 1)
    assert names(tmp_path) == [1, 2]
    segments.close()


def test_a_batch_larger_than_a_segment_gets_one_of_its_size(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    add(segments, b"small")
    add(segments, b"large" * 2000)
    add(segments, b"small")
    assert names(tmp_path) == [1, 2, 3]
    assert contents(segments) == [b"small", b"large" * 2000, b"small"]
    segments.mark()
    segments.close()
    segments = open_log(tmp_path)
    assert contents(segments) == [b"small", b"large" * 2000, b"small"]
    segments.close()


def test_without_fallocate_a_segment_grows_as_it_is_written(tmp_path: Path) -> None:
    class PlainDisk(UnsyncedDisk):
        def fallocate(self, fd: int, count: int) -> bool:
            return False

    segments = open_log(tmp_path, PlainDisk())
    records = fill(segments, 4)
    assert (tmp_path / "00000000000000000004.wal").stat().st_size < SEGMENT_BYTES
    segments.close()
    segments = open_log(tmp_path, PlainDisk())
    assert contents(segments) == records
    segments.close()


def test_a_mark_is_written_once(tmp_path: Path) -> None:
    disk = FaultyDisk(UnsyncedDisk())
    segments = open_log(tmp_path, disk)
    disk.calls.clear()
    segments.mark()
    assert disk.calls == []  # nothing to prove
    add(segments, b"record")
    segments.mark()
    segments.mark()
    assert disk.calls == ["pwrite", "fdatasync"] * 2
    assert (segments.last_lsn, contents(segments)) == (1, [b"record"])
    segments.close()


def test_opening_writes_the_unproven_last_batch_again_and_marks_it(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    add(segments, b"record")
    segments.close()
    disk = FaultyDisk(UnsyncedDisk())
    open_log(tmp_path, disk).close()
    assert [call for call in disk.calls if call in ("pwrite", "fdatasync")] == ["pwrite", "fdatasync"] * 2
    disk.calls.clear()
    open_log(tmp_path, disk).close()
    assert "pwrite" not in disk.calls


@pytest.mark.parametrize("lsn", range(8))
def test_truncating_drops_what_stands_behind(tmp_path: Path, lsn: int) -> None:
    segments = open_log(tmp_path)
    records = fill(segments, 7)
    segments.truncate(Lsn(lsn))
    assert (segments.first_lsn, segments.last_lsn) == (1, lsn)
    assert contents(segments) == records[:lsn]
    assert names(tmp_path) == [segment.first_lsn for segment in segments.live]
    new = fill(segments, 4, 700)
    assert contents(segments) == records[:lsn] + new
    segments.close()
    segments = open_log(tmp_path)
    assert contents(segments) == records[:lsn] + new
    segments.close()


def test_truncating_within_a_batch_cuts_it(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    add(segments, b"one", b"two", b"three")
    segments.truncate(Lsn(2))
    assert (tmp_path / "00000000000000000001.wal").read_bytes().endswith(b"onetwo")
    add(segments, b"THREE")
    segments.truncate(Lsn(1))
    add(segments, b"TWO")
    assert contents(segments) == [b"one", b"TWO"]
    segments.close()
    segments = open_log(tmp_path)
    assert contents(segments) == [b"one", b"TWO"]
    segments.close()


def test_truncating_to_the_end_touches_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk(UnsyncedDisk())
    segments = open_log(tmp_path, disk)
    fill(segments, 2)
    disk.calls.clear()
    segments.truncate(Lsn(2))
    assert disk.calls == []
    segments.close()


def test_the_new_life_begins_before_the_old_one_is_removed(tmp_path: Path) -> None:
    disk = FaultyDisk(UnsyncedDisk())
    segments = open_log(tmp_path, disk)
    fill(segments, 7)
    disk.calls.clear()
    segments.truncate(Lsn(2))
    changes = [call for call in disk.calls if call not in ("open", "close", "pread")]
    assert changes == [
        *["create", "fallocate", "pwrite", "fdatasync", "rename", "fsync_folder"],
        *["unlink", "unlink", "fsync_folder"],
        "ftruncate",
    ]
    segments.close()


def test_trimming_removes_whole_segments(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    records = fill(segments, 7)
    for lsn, first_lsn in [(1, 1), (3, 1), (4, 4), (6, 4), (7, 7), (8, 7)]:
        segments.trim(Lsn(lsn))
        assert segments.first_lsn == first_lsn
        assert contents(segments) == records[first_lsn - 1 :]
        assert names(tmp_path)[0] == first_lsn
    segments.close()
    segments = open_log(tmp_path)
    assert (segments.first_lsn, contents(segments)) == (7, records[6:])
    segments.close()


def test_a_trimmed_log_can_be_truncated_to_nothing(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    fill(segments, 7)
    segments.trim(Lsn(4))
    segments.truncate(Lsn(3))
    assert (segments.first_lsn, segments.last_lsn, contents(segments)) == (4, 3, [])
    new = fill(segments, 2)
    segments.close()
    segments = open_log(tmp_path)
    assert (segments.first_lsn, contents(segments)) == (4, new)
    segments.close()


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    with pytest.raises(Unavailable, match="in use"):
        open_log(tmp_path)
    segments.close()
    segments.close()  # once more does no harm
    open_log(tmp_path).close()


def test_a_log_which_cannot_be_opened_gives_the_folder_back(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    add(segments, b"record")
    segments.mark()
    segments.close()
    path = segments.live[0].path
    data = path.read_bytes()
    path.write_bytes(data[:60] + b"?" + data[61:])
    for _ in range(2):
        with pytest.raises(WalCorrupt):
            open_log(tmp_path)
    with pytest.raises(StorageError, match="opening"):
        open_log(path)  # a file, not a folder
    path.write_bytes(data)
    open_log(tmp_path).close()


def test_what_is_found_is_reported(tmp_path: Path) -> None:
    segments, recovery = Segments.open(UnsyncedDisk(), tmp_path, SEGMENT_BYTES)
    assert (recovery.first_lsn, recovery.last_lsn, recovery.segments, recovery.bytes_checked) == (1, 0, 1, 0)
    fill(segments, 7)
    segments.close()
    (tmp_path / "00000000000000000099.wal.tmp").touch()
    with (tmp_path / "00000000000000000007.wal").open("rb+") as file:
        file.seek(3000)
        file.write(b"half a batch")
    segments, recovery = Segments.open(UnsyncedDisk(), tmp_path, SEGMENT_BYTES)
    assert (recovery.first_lsn, recovery.last_lsn, recovery.segments) == (1, 7, 4)
    assert recovery.bytes_checked == 3 * HEADER_BYTES + 7 * (HEAD_BYTES + 8 + 1000)
    assert recovery.dead == ("00000000000000000099.wal.tmp",)
    assert recovery.torn is not None
    assert (recovery.torn.lsn, recovery.torn.byte) == (8, HEADER_BYTES + HEAD_BYTES + 8 + 1000)
    assert names(tmp_path) == [1, 4, 7, 8]
    segments.close()


def test_damage_found_while_truncating_is_corruption(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    add(segments, b"one", b"two")
    add(segments, b"three")
    path = segments.live[0].path
    path.write_bytes(path.read_bytes().replace(b"onetwo", b"ONEtwo"))
    with pytest.raises(WalCorrupt) as caught:
        segments.truncate(Lsn(1))
    assert caught.value.details["lsn"] == 1
    segments.close()


def test_every_life_has_its_own_salt(tmp_path: Path) -> None:
    salts = set()
    for name in ("a", "b"):
        segments, _ = Segments.open(UnsyncedDisk(), tmp_path / name, SEGMENT_BYTES)
        salts.add(segments.live[-1].salt)
        segments.close()
    assert len(salts) == 2
