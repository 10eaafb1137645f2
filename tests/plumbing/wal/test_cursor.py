from pathlib import Path

import pytest
from tests.plumbing.wal.disks import UnsyncedDisk
from tests.plumbing.wal.logs import add, open_log

from penstock.plumbing.wal.batch import HEAD_BYTES, INDEX_BYTES, crcs_in, encode
from penstock.plumbing.wal.cursor import READ_BYTES, Cursor, Damage, LogBatch, find_head, is_blank
from penstock.plumbing.wal.segment import HEADER_BYTES, WalSegment

NO_LIMIT = 1 << 40


class OpenFile:
    """A segment's file, open."""

    def __init__(self, segment: WalSegment) -> None:
        self.disk = UnsyncedDisk()
        self.segment = segment
        self.fd = self.disk.open(segment.path)

    def cursor(self, chain: int | None = 0, lsn: int = 1, read_bytes: int = READ_BYTES) -> Cursor:
        return Cursor(self.disk, self.fd, self.segment, at=HEADER_BYTES, chain=chain, lsn=lsn, read_bytes=read_bytes)

    def walk(self, cursor: Cursor, last_lsn: int = NO_LIMIT) -> tuple[list[LogBatch], Damage]:
        batches = []
        while isinstance(batch := cursor.next(last_lsn), LogBatch):
            batches.append(batch)
        return batches, batch


@pytest.fixture
def segment(tmp_path: Path) -> WalSegment:
    """Three batches, of the lsns 1 to 2, 3 to 5 and 6; nothing behind."""
    segments = open_log(tmp_path)
    add(segments, b"one", b"two")
    add(segments, b"three", b"", b"five")
    add(segments, b"six")
    segments.close()
    return segments.live[0]


@pytest.mark.parametrize("read_bytes", [1, 50, READ_BYTES])
def test_it_walks_to_the_end(segment: WalSegment, read_bytes: int) -> None:
    file = OpenFile(segment)
    batches, end = file.walk(file.cursor(read_bytes=read_bytes))
    assert [(batch.first_lsn, batch.last_lsn, batch.payload) for batch in batches] == [
        (1, 2, b"onetwo"),
        (3, 5, b"threefive"),
        (6, 6, b"six"),
    ]
    assert batches[0].at == HEADER_BYTES
    assert batches[1].at == batches[0].end == batches[0].payload_at + 6
    assert end == Damage(batches[2].end, 7, "no batch begins here", batches[2].end)
    assert is_blank(file.disk, file.fd, batches[2].end)
    assert not is_blank(file.disk, file.fd, batches[2].end - 1)
    file.disk.close(file.fd)


def test_records_behind_the_limit_need_not_be_there(segment: WalSegment) -> None:
    file = OpenFile(segment)
    batches, _ = file.walk(file.cursor())
    file.disk.ftruncate(file.fd, batches[1].payload_at + 5)  # the second batch has lost "five"
    cursor = file.cursor()
    cursor.next(4)
    cut = cursor.next(4)
    assert isinstance(cut, LogBatch)
    assert (cut.count, cut.payload, cut.last_lsn, cursor.lsn) == (2, b"three", 4, 5)
    assert cursor.chain == cut.chain == crcs_in(cut.index)[1]
    file.disk.close(file.fd)


def test_damage_in_a_payload_names_the_record_and_keeps_those_before(segment: WalSegment) -> None:
    file = OpenFile(segment)
    batches, _ = file.walk(file.cursor())
    place = batches[1].payload_at + 5
    file.disk.pwrite(file.fd, b"F", place)
    found, damage = file.walk(file.cursor())
    assert found == batches[:1]
    assert (damage.at, damage.lsn, damage.batch_at) == (place, 5, batches[1].at)
    assert not damage.is_misplaced
    assert damage.intact is not None
    assert (damage.intact.count, damage.intact.payload, damage.intact.end) == (2, b"three", place)
    file.disk.close(file.fd)


def test_damage_in_the_index_keeps_nothing_of_the_batch(segment: WalSegment) -> None:
    file = OpenFile(segment)
    batches, _ = file.walk(file.cursor())
    file.disk.pwrite(file.fd, b"\xff", batches[1].at + HEAD_BYTES + 2 * INDEX_BYTES)
    found, damage = file.walk(file.cursor())
    assert found == batches[:1]
    assert damage == Damage(batches[1].at, 3, "the batch's index does not match its checksum", batches[1].at)
    file.disk.close(file.fd)


def test_a_batch_in_the_wrong_place_is_misplaced(segment: WalSegment) -> None:
    file = OpenFile(segment)
    batches, _ = file.walk(file.cursor())
    again, _ = encode([b"six"], 6, segment.salt, batches[1].chain)
    file.disk.pwrite(file.fd, again, batches[2].end)
    _, twice = file.walk(file.cursor())
    assert (twice.lsn, twice.is_misplaced, twice.why) == (7, True, "there is a batch of lsn 6 here")
    other, _ = encode([b"seven"], 7, segment.salt, 0xBAD)
    file.disk.pwrite(file.fd, other, batches[2].end)
    _, unchained = file.walk(file.cursor())
    assert (unchained.lsn, unchained.is_misplaced) == (7, True)
    assert "does not continue" in unchained.why
    file.disk.close(file.fd)


def test_from_the_middle_the_chain_is_taken_as_it_is(segment: WalSegment) -> None:
    file = OpenFile(segment)
    found, _ = file.walk(file.cursor(chain=None))
    assert len(found) == 3
    none, damage = file.walk(file.cursor(chain=1))
    assert none == []
    assert damage.is_misplaced
    file.disk.close(file.fd)


@pytest.mark.parametrize("shift", range(0, HEAD_BYTES + 2, 3))
def test_a_head_is_found_across_the_border_of_two_reads(segment: WalSegment, shift: int) -> None:
    file = OpenFile(segment)
    data, _ = encode([b"far"], 99, segment.salt, 0)
    place = HEADER_BYTES + READ_BYTES - shift
    file.disk.pwrite(file.fd, data, place)
    found = find_head(file.disk, file.fd, segment, at=HEADER_BYTES, lsn=50)
    assert found is not None
    assert (found[0], found[1].first_lsn) == (place, 99)
    assert find_head(file.disk, file.fd, segment, at=HEADER_BYTES, lsn=100) is None
    assert find_head(file.disk, file.fd, segment, at=place + 1, lsn=50) is None
    file.disk.close(file.fd)


def test_a_head_of_another_life_is_not_found(segment: WalSegment) -> None:
    file = OpenFile(segment)
    data, _ = encode([b"old"], 99, segment.salt ^ 1, 0)
    file.disk.pwrite(file.fd, data, 2000)
    assert find_head(file.disk, file.fd, segment, at=HEADER_BYTES, lsn=50) is None
    file.disk.close(file.fd)
