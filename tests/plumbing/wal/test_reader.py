import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from tests.plumbing.wal.disks import FaultyDisk, UnsyncedDisk
from tests.plumbing.wal.logs import add, open_log

from penstock.kernel.errors import NotFound, PreconditionFailed, StorageError, WalCorrupt
from penstock.kernel.ids import Lsn
from penstock.plumbing.wal import Wal, WalOptions
from penstock.plumbing.wal.reader import WalReader
from penstock.plumbing.wal.records import Records

SMALL = WalOptions(segment_bytes=4096, mark_after_s=None)


class OvertakenDisk(UnsyncedDisk):
    """Lets something happen right before a file is opened, or read from, for the first time."""

    def __init__(self, call: str, happens: Callable[[], None]) -> None:
        self._call = call
        self._happens = [happens]

    def _meanwhile(self, call: str) -> None:
        if call == self._call and self._happens:
            self._happens.pop()()

    def open(self, path: Path) -> int:
        self._meanwhile("open")
        return super().open(path)

    def pread(self, fd: int, count: int, at: int) -> bytes:
        self._meanwhile("pread")
        return super().pread(fd, count, at)


async def test_it_reads_up_to_what_is_allowed(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    add(segments, b"one", b"two", b"three")
    reader = WalReader(UnsyncedDisk(), segments)
    records = await reader.read(Lsn(2), lambda: Lsn(2), 1000)
    assert [bytes(record) for record in records] == [b"two"]
    assert not await reader.read(Lsn(3), lambda: Lsn(2), 1000)
    segments.close()


async def test_what_was_trimmed_is_not_found(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    for _ in range(4):
        add(segments, bytes(3000))
    segments.trim(Lsn(3))
    reader = WalReader(UnsyncedDisk(), segments)
    with pytest.raises(NotFound, match="lsn 2 was trimmed: the log begins at 3") as caught:
        await reader.read(Lsn(2), lambda: Lsn(4), 1000)
    assert caught.value.details == {"first_lsn": 3}
    segments.close()


async def test_a_trim_in_the_middle_of_a_read(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    for _ in range(4):
        add(segments, bytes(3000))
    reader = WalReader(OvertakenDisk("open", lambda: segments.trim(Lsn(3))), segments)
    with pytest.raises(NotFound):
        await reader.read(Lsn(2), lambda: Lsn(4), 1000)
    segments.close()


@pytest.mark.parametrize("call", ["open", "pread"])
async def test_a_truncation_in_the_middle_of_a_read(tmp_path: Path, call: str) -> None:
    """The read began before the truncation, and returns what the log holds behind it."""
    segments = open_log(tmp_path)
    add(segments, b"one", b"two")
    add(segments, b"three")
    last_lsn = segments.last_lsn

    def truncate() -> None:
        nonlocal last_lsn
        last_lsn = Lsn(1)
        reader.on_cut(last_lsn)
        segments.truncate(last_lsn)

    reader = WalReader(OvertakenDisk(call, truncate), segments)
    records = await reader.read(Lsn(1), lambda: last_lsn, 1000)
    assert [bytes(record) for record in records] == [b"one"]
    segments.close()


async def test_damage_is_not_taken_for_a_truncation(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    add(segments, b"one", b"two")
    path = segments.live[0].path
    path.write_bytes(path.read_bytes().replace(b"two", b"TWO"))
    with pytest.raises(WalCorrupt) as caught:
        await WalReader(UnsyncedDisk(), segments).read(Lsn(1), lambda: Lsn(2), 1000)
    assert caught.value.details["lsn"] == 2
    with pytest.raises(StorageError, match="reading lsn 1 failed"):
        await WalReader(FaultyDisk(UnsyncedDisk(), 2), segments).read(Lsn(1), lambda: Lsn(2), 1000)
    segments.close()


async def test_a_walk_goes_through_all(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    for number in range(20):
        add(segments, b"%03d" % number * 200, b"x")
    reader = WalReader(UnsyncedDisk(), segments)
    walked = [records async for records in reader.walk(Lsn(3), lambda: Lsn(39), 1500)]
    assert walked[0].first_lsn == 3
    assert walked[-1].last_lsn == 39
    assert all(after.first_lsn == before.last_lsn + 1 for before, after in pairwise(walked))
    assert all(len(records.payload) <= 1500 for records in walked)
    assert not reader._walks
    segments.close()


async def test_a_walk_ends_if_what_it_has_passed_is_truncated(tmp_path: Path) -> None:
    segments = open_log(tmp_path)
    add(segments, *[b"%d" % number for number in range(10)])
    reader = WalReader(UnsyncedDisk(), segments)
    walk = reader.walk(Lsn(1), lambda: segments.last_lsn, 4)
    assert (await anext(walk)).last_lsn == 4
    reader.on_cut(Lsn(4))
    segments.truncate(Lsn(4))
    add(segments, b"new")
    assert [bytes(record) for record in await anext(walk)] == [b"new"]  # it had not passed what was cut
    reader.on_cut(Lsn(3))
    segments.truncate(Lsn(3))
    add(segments, b"newer", b"and", b"newest")
    with pytest.raises(PreconditionFailed, match="truncated to lsn 3 while a reader was at 6"):
        await anext(walk)
    segments.close()


class Beside:
    """A WAL which is appended to, truncated and trimmed, and read all the while."""

    def __init__(self, wal: Wal) -> None:
        self.wal = wal
        self.rng = Random(4)
        self.log: dict[int, bytes] = {}  # what is durable, at any moment
        self.is_over = False
        self.records_read = 0
        self.times_trimmed = 0
        self.times_cut = 0

    async def write(self) -> None:
        trimmed_to = Lsn(1)
        for life in range(150):
            record = b"%d:" % life + bytes(self.rng.randrange(300))
            for _ in range(self.rng.randrange(1, 4)):
                self.log[await self.wal.append([record])] = record
            if life % 5 == 4:
                await self.truncate(
                    Lsn(self.rng.randrange(max(trimmed_to, self.wal.last_lsn - 9), self.wal.last_lsn + 1))
                )
            if life % 11 == 10:
                trimmed_to = Lsn(max(1, self.wal.last_lsn - 30))
                await self.wal.trim(trimmed_to)
        self.is_over = True

    async def truncate(self, lsn: Lsn) -> None:
        self.log = {kept: record for kept, record in self.log.items() if kept <= lsn}
        await self.wal.truncate(lsn)

    async def read(self) -> None:
        while not self.is_over:
            await asyncio.sleep(0)
            try:
                records = await self.wal.read(
                    Lsn(self.rng.randrange(1, self.wal.last_lsn + 2)), bytes_max=self.rng.randrange(1, 5000)
                )
            except NotFound:
                self.times_trimmed += 1
                continue
            self.check(records)

    def check(self, records: Records) -> None:
        """What a read returns is, at the moment it returns, what the log holds."""
        assert not records or records.last_lsn <= self.wal.durable_lsn
        for lsn, record in enumerate(records, records.first_lsn):
            # The writer hears of a durable record a moment later than the readers may see it.
            assert self.log.get(lsn, record) == record
        self.records_read += len(records)

    async def walk(self) -> None:
        while not self.is_over:
            await asyncio.sleep(0)
            lsn = self.wal.first_lsn
            try:
                async for records in self.wal.walk(lsn, bytes_max=500):
                    assert records.first_lsn == lsn
                    lsn = Lsn(records.last_lsn + 1)
                    self.check(records)
            except (PreconditionFailed, NotFound):
                self.times_cut += 1


async def test_readers_beside_appends_truncations_and_trims(tmp_path: Path) -> None:
    async with await Wal.open(tmp_path, SMALL, disk=UnsyncedDisk()) as wal:
        beside = Beside(wal)
        await asyncio.gather(beside.write(), beside.read(), beside.read(), beside.walk())
        assert beside.records_read > 100
        assert beside.times_trimmed > 0
