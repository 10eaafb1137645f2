"""Every cut and every changed bit, and what recovery makes of it: exactly as docs/reference/wal.md says."""

from pathlib import Path

import pytest
from tests.plumbing.wal.disks import UnsyncedDisk
from tests.plumbing.wal.logs import add, contents, flipped, open_log

from penstock.kernel.errors import WalCorrupt
from penstock.kernel.ids import Lsn
from penstock.plumbing.wal.batch import HEAD_BYTES, INDEX_BYTES, encode
from penstock.plumbing.wal.recovery import Survey, TornTail, survey
from penstock.plumbing.wal.segment import HEADER_BYTES, segment_name

RECORDS = [b"one", b"second", b"three", b"", b"five", b"sixth"]
BATCHES = [RECORDS[:2], RECORDS[2:5], RECORDS[5:]]


class SmallLog:
    """One segment with three batches, with or without a mark behind them."""

    def __init__(self, folder: Path, *, is_marked: bool) -> None:
        self.folder = folder
        segments = open_log(folder)
        self.starts = [HEADER_BYTES]
        for batch in BATCHES:
            add(segments, *batch)
            self.starts.append(segments._at)
        self.end = segments._at
        if is_marked:
            segments.mark()
        segments.close()
        self.path = segments.live[0].path
        self.data = self.path.read_bytes()

    def survey_of(self, data: bytes) -> Survey:
        with self.path.open("rb+" if self.path.exists() else "wb") as file:
            file.write(data)
            file.truncate()
        return survey(UnsyncedDisk(), self.folder)

    def kept_before(self, place: int) -> int:
        """How many records end at or before a byte, if all before it is right: what a torn tail leaves."""
        kept = 0
        for start, batch in zip(self.starts, BATCHES, strict=False):
            at = start + HEAD_BYTES + INDEX_BYTES * len(batch)
            for record in batch:
                at += len(record)
                # A record without bytes is there as soon as the index is.
                kept += at <= place
        return kept

    def contents_after_recovery(self) -> list[bytes]:
        segments = open_log(self.folder)
        found = contents(segments)
        segments.close()
        return found


@pytest.fixture
def crashed(tmp_path: Path) -> SmallLog:
    return SmallLog(tmp_path, is_marked=False)


@pytest.fixture
def closed(tmp_path: Path) -> SmallLog:
    return SmallLog(tmp_path, is_marked=True)


def test_a_clean_end_is_no_torn_tail(crashed: SmallLog) -> None:
    found = crashed.survey_of(crashed.data)
    assert found.torn is None
    assert found.tail is not None
    assert (found.tail.at, found.tail.last_lsn, found.tail.unsure_at) == (crashed.end, 6, crashed.starts[2])
    assert found.bytes_checked == crashed.end


def test_a_mark_proves_what_stands_before_it(closed: SmallLog) -> None:
    found = closed.survey_of(closed.data)
    assert found.torn is None
    assert found.tail is not None
    assert (found.tail.at, found.tail.last_lsn, found.tail.unsure_at) == (closed.end + HEAD_BYTES, 6, None)


@pytest.mark.parametrize("is_cut", [True, False], ids=["the file is cut short", "the last blocks were never written"])
def test_lost_from_any_byte_on(crashed: SmallLog, is_cut: bool) -> None:
    for end in range(HEADER_BYTES, crashed.end + 1):
        data = crashed.data[:end] if is_cut else crashed.data[:end].ljust(len(crashed.data), b"\0")
        found = crashed.survey_of(data)
        rest = crashed.data[end : crashed.end]
        right_to = end if is_cut else end + len(rest) - len(rest.lstrip(b"\0"))  # zeros lost are still zeros
        assert found.tail is not None
        assert found.tail.last_lsn == crashed.kept_before(right_to)
        whole_to = max(start for start in crashed.starts if start <= right_to)
        assert (found.torn is None) == (not data[whole_to:].strip(b"\0"))
        assert crashed.contents_after_recovery() == RECORDS[: found.tail.last_lsn]
        for path in crashed.folder.glob("*.wal"):
            path.unlink()


def test_every_bit_of_the_last_batch_changed_is_a_torn_tail(crashed: SmallLog) -> None:
    start = crashed.starts[2]
    payload_at = start + HEAD_BYTES + INDEX_BYTES
    for bit in range(start * 8, crashed.end * 8):
        found = crashed.survey_of(flipped(crashed.data, bit))
        assert found.tail is not None
        assert found.tail.last_lsn == 5
        place = payload_at if bit >= payload_at * 8 else start
        assert found.torn is not None
        assert (found.torn.file, found.torn.byte, found.torn.lsn) == (str(crashed.path), place, 6)


def test_every_bit_of_a_batch_before_changed_is_corruption(crashed: SmallLog) -> None:
    for number, batch in enumerate(BATCHES[:2]):
        start = crashed.starts[number]
        first_lsn = 1 + sum(map(len, BATCHES[:number]))
        payload_at = start + HEAD_BYTES + INDEX_BYTES * len(batch)
        for bit in range(start * 8, crashed.starts[number + 1] * 8):
            with pytest.raises(WalCorrupt) as caught:
                crashed.survey_of(flipped(crashed.data, bit))
            place, lsn = start, first_lsn
            if bit >= payload_at * 8:
                place, lsn = payload_at, first_lsn
                for record in batch:
                    if bit < (place + len(record)) * 8:
                        break
                    place, lsn = place + len(record), lsn + 1
            found = caught.value.details
            # A record without bytes in front of the damaged one has the crc of the one before it: it is still right.
            assert (found["file"], found["byte"], found["lsn"]) == (str(crashed.path), place, lsn), bit


def test_every_bit_changed_in_a_closed_log_is_corruption(closed: SmallLog) -> None:
    for bit in range(closed.end * 8):
        with pytest.raises(WalCorrupt):
            closed.survey_of(flipped(closed.data, bit))


def test_a_damaged_mark_costs_no_record(closed: SmallLog) -> None:
    for bit in range(closed.end * 8, (closed.end + HEAD_BYTES) * 8):
        found = closed.survey_of(flipped(closed.data, bit))
        assert found.torn == TornTail(str(closed.path), closed.end, Lsn(7), "no batch begins here")
        assert found.tail is not None
        assert found.tail.last_lsn == 6


def test_anything_in_the_unwritten_rest_is_a_torn_tail_without_loss(crashed: SmallLog) -> None:
    for place in (crashed.end, crashed.end + 1, 4095):
        found = crashed.survey_of(flipped(crashed.data, place * 8))
        assert found.torn is not None
        assert found.tail is not None
        assert (found.tail.last_lsn, found.torn.byte, found.torn.lsn) == (6, crashed.end, 7)


def test_after_a_torn_tail_the_lost_records_do_not_come_back(crashed: SmallLog) -> None:
    """The very same record appended again does not bring back what stood behind its first life."""
    crashed.path.write_bytes(flipped(crashed.data, (crashed.starts[1] + HEAD_BYTES) * 8)[: crashed.starts[2]])
    segments = open_log(crashed.folder)
    assert contents(segments) == RECORDS[:2]
    add(segments, *BATCHES[1])
    segments.close()
    segments = open_log(crashed.folder)
    assert contents(segments) == RECORDS[:5]
    segments.close()


def test_a_torn_batch_leaves_its_first_records_for_good(crashed: SmallLog) -> None:
    payload_at = crashed.starts[1] + HEAD_BYTES + 3 * INDEX_BYTES
    crashed.path.write_bytes(crashed.data[: payload_at + 7])
    segments = open_log(crashed.folder)
    assert contents(segments) == RECORDS[:4]
    assert [segment.first_lsn for segment in segments.live] == [1, 5]
    assert crashed.path.stat().st_size == payload_at + len(RECORDS[2])  # what was dropped is gone
    add(segments, b"other")
    segments.close()
    segments = open_log(crashed.folder)
    assert contents(segments) == [*RECORDS[:4], b"other"]
    segments.close()


def test_a_first_batch_torn_leaves_an_empty_log(crashed: SmallLog) -> None:
    crashed.path.write_bytes(crashed.data[: HEADER_BYTES + 20])
    segments = open_log(crashed.folder)
    assert (segments.first_lsn, segments.last_lsn, contents(segments)) == (1, 0, [])
    add(segments, b"again")
    assert contents(segments) == [b"again"]
    segments.close()


class LongLog:
    """Four segments of two batches each."""

    def __init__(self, folder: Path, numbers: range = range(8)) -> None:
        self.folder = folder
        segments = open_log(folder)
        for number in numbers:
            add(segments, b"%d" % number * 900, b"%d" % number * 900)
        self.paths = [segment.path for segment in segments.live]
        segments.close()
        assert len(self.paths) == 4


@pytest.fixture
def long(tmp_path: Path) -> LongLog:
    return LongLog(tmp_path)


def test_damage_in_a_segment_before_the_last_is_corruption_even_at_its_end(long: LongLog) -> None:
    path = long.paths[1]
    data = path.read_bytes()
    end = len(data.rstrip(b"\0"))
    for damaged in (data[: end - 1], flipped(data, end * 8 - 1), data[: end - 1].ljust(4096, b"\0")):
        path.write_bytes(damaged)
        with pytest.raises(WalCorrupt, match=r"though 00000000000000000009\.wal continues from lsn 9") as caught:
            survey(UnsyncedDisk(), long.folder)
        assert caught.value.details["lsn"] == 8
        assert caught.value.details["file"] == str(path)


def test_the_unused_end_of_a_segment_before_the_last_is_not_looked_at(long: LongLog) -> None:
    data = long.paths[1].read_bytes()
    assert data[-1] == 0
    long.paths[1].write_bytes(data[:-1] + b"x")
    assert survey(UnsyncedDisk(), long.folder).torn is None


def test_a_missing_segment_is_corruption(long: LongLog) -> None:
    long.paths[1].unlink()
    with pytest.raises(WalCorrupt) as caught:
        survey(UnsyncedDisk(), long.folder)
    assert caught.value.details["lsn"] == 5


def test_a_missing_first_segment_looks_trimmed(long: LongLog) -> None:
    long.paths[0].unlink()
    found = survey(UnsyncedDisk(), long.folder)
    assert found.live[0].first_lsn == 5


def test_a_segment_of_another_history_is_corruption(long: LongLog, tmp_path: Path) -> None:
    other = LongLog(tmp_path / "other", range(1, 9))
    other.paths[2].rename(long.paths[2])
    with pytest.raises(WalCorrupt, match=r"09.wal is damaged at byte 0, lsn 9: it does not continue lsn 8"):
        survey(UnsyncedDisk(), long.folder)


def test_leftovers_of_segments_never_finished_are_named_as_dead(long: LongLog) -> None:
    (long.folder / (segment_name(99) + ".tmp")).write_bytes(b"half a header")
    (long.folder / "notes.txt").write_bytes(b"not ours")
    (long.folder / "x.wal").write_bytes(b"not ours")
    found = survey(UnsyncedDisk(), long.folder)
    assert found.dead == (segment_name(99) + ".tmp",)
    open_log(long.folder).close()
    assert sorted(path.name for path in long.folder.iterdir()) == sorted(
        ["LOCK", "notes.txt", "x.wal", *(path.name for path in long.paths)]
    )


def test_the_newer_of_two_lives_counts(tmp_path: Path) -> None:
    """A crash right behind a truncation, before the dead segments were removed."""
    log = LongLog(tmp_path)
    kept = {path: path.read_bytes() for path in log.paths}
    segments = open_log(tmp_path)
    segments.truncate(segments.live[1].first_lsn)
    segments.close()
    for path, data in kept.items():
        path.write_bytes(data)  # as if neither the removal nor the cut had reached the disk
    found = survey(UnsyncedDisk(), tmp_path)
    assert [segment.first_lsn for segment in found.live] == [1, 5, 6]
    assert found.dead == (log.paths[2].name, log.paths[3].name)
    segments = open_log(tmp_path)
    assert (segments.last_lsn, len(contents(segments))) == (5, 5)
    add(segments, b"new")
    segments.close()
    segments = open_log(tmp_path)
    assert contents(segments)[-1] == b"new"
    segments.close()


def test_a_forged_batch_is_corruption(crashed: SmallLog) -> None:
    """Not left by any crash: a right head which does not continue what stands before it."""
    segments = survey(UnsyncedDisk(), crashed.folder).live
    data, _ = encode([b"seven"], 7, segments[0].salt, 0xBAD)
    with pytest.raises(WalCorrupt, match="does not continue"):
        crashed.survey_of(crashed.data[: crashed.end] + data)


def test_a_new_folder_has_nothing(tmp_path: Path) -> None:
    assert survey(UnsyncedDisk(), tmp_path) == Survey((), (), None)
