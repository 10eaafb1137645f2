from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plumbing.wal.disks import FaultyDisk, UnsyncedDisk
from tests.plumbing.wal.logs import add, open_log

from penstock.kernel.errors import WalCorrupt
from penstock.kernel.ids import Lsn
from penstock.plumbing.wal.records import Records, SegmentGone, no_records, read_records
from penstock.plumbing.wal.segments import Segments

ALL = [bytes([65 + number]) * (number * 37 % 500) for number in range(40)]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Segments]:
    """Forty records in batches of one, two, three …, in several segments, with marks between."""
    segments = open_log(tmp_path_factory.mktemp("log"))
    start = 0
    for count in range(1, 9):
        add(segments, *ALL[start : start + count])
        segments.mark()
        start += count
    add(segments, *ALL[start:])
    assert len(segments.live) > 2
    yield segments
    segments.close()


def read(log: Segments, first_lsn: int, last_lsn: int = 40, bytes_max: int = 1 << 30) -> Records:
    return read_records(UnsyncedDisk(), log.live, Lsn(first_lsn), Lsn(last_lsn), bytes_max)


def test_records_are_views_of_one_piece_of_memory() -> None:
    records = Records(Lsn(7), array("I", [3, 0, 2]), b"abcde")
    assert (len(records), records.last_lsn) == (3, 9)
    assert [bytes(view) for view in records] == [b"abc", b"", b"de"]
    assert all(view.obj is records.payload for view in records)


def test_no_records_are_false() -> None:
    assert not no_records(Lsn(7))
    assert no_records(Lsn(7)).last_lsn == 6


@given(st.data())
def test_any_range_is_read(log: Segments, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, 40))
    last = data.draw(st.integers(first, 40))
    records = read(log, first, last)
    assert (records.first_lsn, records.last_lsn) == (first, last)
    assert [bytes(view) for view in records] == ALL[first - 1 : last]


@given(st.data())
def test_at_most_so_many_bytes_but_at_least_one_record(log: Segments, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, 40))
    bytes_max = data.draw(st.integers(0, 3000))
    records = [bytes(view) for view in read(log, first, bytes_max=bytes_max)]
    assert records == ALL[first - 1 : first - 1 + len(records)]
    assert len(records) == 1 or sum(map(len, records)) <= bytes_max
    following = ALL[first - 1 + len(records) :]
    assert len(records) >= 1
    # It stopped because the next one did not fit; or, at the very limit, before one which has no bytes.
    assert not following or sum(map(len, records)) + len(following[0]) >= bytes_max


def test_nothing_behind_the_last_is_looked_at(log: Segments) -> None:
    segment = log.live[-1]
    data = segment.path.read_bytes()
    try:
        segment.path.write_bytes(data[: data.rindex(ALL[39])])
        assert read(log, 30, 39).last_lsn == 39
        with pytest.raises(WalCorrupt) as caught:
            read(log, 30, 40)
        assert caught.value.details["lsn"] == 40
    finally:
        segment.path.write_bytes(data)


def test_a_trimmed_segment_is_gone(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    add(segments, b"one")
    before = segments.live
    before[0].path.unlink()
    with pytest.raises(SegmentGone):
        read_records(UnsyncedDisk(), before, Lsn(1), Lsn(1), 100)
    segments.close()


def test_a_replaced_segment_is_gone(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    add(segments, b"one")
    before = segments.live
    segments.truncate(Lsn(0))
    add(segments, b"ONE")
    assert [path.name for path in tmp_path.glob("*.wal")] == [before[0].path.name]
    disk = FaultyDisk(UnsyncedDisk())
    with pytest.raises(SegmentGone):
        read_records(disk, before, Lsn(1), Lsn(1), 100)
    assert disk.calls.count("open") == disk.calls.count("close") == 1
    segments.close()
