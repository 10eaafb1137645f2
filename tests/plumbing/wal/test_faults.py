"""Fail the 1st, 2nd, 3rd … call to the disk in turn; then look at what is there with a healthy disk.

One scenario goes through all a WAL does. Whichever call fails, and however: what was acknowledged is there, what was
not is there as a prefix or not at all, and nobody was told "not written" about what is there.
"""

import copy
from pathlib import Path
from random import Random

import pytest
from tests.plumbing.wal.disks import FaultyDisk, How, PowerCutDisk, UnsyncedDisk

from penstock.kernel.errors import PenstockError, StorageError, WalPoisoned, Written
from penstock.kernel.ids import Lsn
from penstock.plumbing.wal import StateFile, Wal, WalOptions
from penstock.plumbing.wal.disk import Disk
from penstock.plumbing.wal.records import read_records
from penstock.plumbing.wal.segments import Segments

SMALL = WalOptions(segment_bytes=4096, batch_bytes_max=4096, mark_after_s=None)


_CHANGES = {"mkdir", "create", "pwrite", "fallocate", "ftruncate", "fdatasync", "rename", "unlink", "fsync_folder"}
_ASKS = {"names", "lock", "open", "close", "pread"}
CAN_FAIL_SO = {How.NOTHING: _CHANGES | _ASKS, How.HALF: {"pwrite"}, How.ALL: _CHANGES}


class Expected:
    """Which logs are allowed to be there, whatever happens next: each as the records from Lsn 1 on."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.others: list[list[bytes]] = []  # allowed beside `records` since something failed
        self.states: set[bytes | None] = {None}
        self.trimmed_to = 1
        self._made = 0

    def make(self, *sizes: int) -> list[bytes]:
        """Records nobody has seen before, so that one which comes back from the dead is known."""
        self._made += 1
        return [f"{self._made}.{number}:".encode().ljust(size, b"x")[:size] for number, size in enumerate(sizes)]

    def check(self, first_lsn: int, found: list[bytes], state: bytes | None) -> None:
        """What is there is allowed; from now on it is what must be there."""
        assert first_lsn <= self.trimmed_to
        start = first_lsn - 1
        allowed = [self.records, *self.others]
        fitting = [log for log in allowed if len(log) == start + len(found) and log[start:] == found]
        assert fitting, f"{found} from lsn {first_lsn} is none of {allowed}"
        assert state in self.states
        self.records, self.others, self.states = fitting[0], [], {state}


class Run:
    """The scenario's steps, each with what it means for what must be there."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.expected = Expected()
        self.errors: list[PenstockError] = []  # since the WAL was opened
        self._folder = folder
        self._disk = disk
        self._state_file = StateFile(folder / "state", disk)
        self._wal: Wal | None = None

    async def scenario(self) -> None:
        """All a WAL does. One which fails gets the rest of its steps all the same, and must refuse them."""
        await self.open()
        await self.append(10, 0, 300)
        await self.append(2000)
        await self.append(1500, 600)  # does not fit: a second segment
        await self.append(3000)  # a third one
        await self.truncate(5)  # within the second
        await self.append(20)
        await self.save_state(b"one")
        await self.append(5000)  # larger than a segment
        await self.truncate(3)  # into the first
        await self.append(3500)
        await self.append(3500, 10)
        await self.trim(5)
        await self.save_state(b"two")
        await self.close()
        await self.open()
        await self.append(30)
        await self.truncate(5)
        await self.append(30, 40)
        await self.close()

    async def open(self) -> None:
        self.errors = []
        try:
            self._wal = await Wal.open(self._folder, SMALL, disk=self._disk)
            first_lsn = self._wal.first_lsn
            found = [bytes(record) async for records in self._wal.walk(first_lsn) for record in records]
            assert self._wal.last_lsn == self._wal.durable_lsn == first_lsn + len(found) - 1
            self.expected.check(first_lsn, found, self._state_file.load())
        except StorageError:
            await self.close()

    async def append(self, *sizes: int) -> None:
        if self._wal is None:
            return
        records = self.expected.make(*sizes)
        before = self.expected.records
        try:
            lsn = await self._wal.append(records)
        except WalPoisoned as error:
            if self._failed(error) is Written.UNKNOWN:
                self.expected.others = [before + records[: count + 1] for count in range(len(records))]
        else:
            assert not self.errors
            self.expected.records = before + records
            assert lsn == self._wal.durable_lsn == len(self.expected.records)

    async def truncate(self, lsn: int) -> None:
        before = self.expected.records
        if self._wal is None or not self._wal.first_lsn - 1 <= lsn <= len(before):
            return
        try:
            await self._wal.truncate(Lsn(lsn))
        except WalPoisoned as error:
            if self._failed(error) is Written.UNKNOWN:
                self.expected.others = [before[:lsn]]
        else:
            assert not self.errors
            self.expected.records = before[:lsn]

    async def trim(self, lsn: int) -> None:
        if self._wal is None or lsn > self._wal.last_lsn + 1:
            return
        self.expected.trimmed_to = lsn
        try:
            await self._wal.trim(Lsn(lsn))
        except WalPoisoned as error:
            self._failed(error)

    async def save_state(self, state: bytes) -> None:
        if self._wal is None:
            return
        try:
            await self._wal.save_state(self._state_file, state)
        except WalPoisoned as error:
            if self._failed(error) is Written.UNKNOWN:
                self.expected.states.add(state)
        else:
            assert not self.errors
            self.expected.states = {state}

    async def close(self) -> None:
        if self._wal is None:
            return
        try:
            await self._wal.close()
        except WalPoisoned as error:
            self._failed(error)
        self._wal = None

    def _failed(self, error: WalPoisoned) -> Written:
        """Only the first failure can have done anything: behind it nothing is written any more."""
        assert error.written is Written.NO or not self.errors, error
        self.errors.append(error)
        return error.written


def check_with_healthy_disk(folder: Path, expected: Expected) -> None:
    """What is there is allowed; and the log goes on from there. (Without threads, since this is done very often.)"""
    for _ in range(2):
        segments, _ = Segments.open(UnsyncedDisk(), folder, SMALL.segment_bytes)
        expected.check(segments.first_lsn, all_records(segments), StateFile(folder / "state").load())
        records = expected.make(7, 8, 9)
        segments.make_room(1000)
        segments.write(records)
        expected.records = expected.records + records
        segments.close()


def all_records(segments: Segments) -> list[bytes]:
    if segments.first_lsn > segments.last_lsn:
        return []
    records = read_records(UnsyncedDisk(), segments.live, segments.first_lsn, segments.last_lsn, 1 << 30)
    return [bytes(record) for record in records]


async def calls_of_the_scenario(folder: Path) -> list[str]:
    disk = FaultyDisk(UnsyncedDisk())
    await Run(folder, disk).scenario()
    return disk.calls


@pytest.mark.parametrize("how", How)
@pytest.mark.parametrize("once", [True, False], ids=["once", "from then on"])
async def test_whichever_call_fails_the_acknowledged_is_there(tmp_path: Path, once: bool, how: How) -> None:
    calls = await calls_of_the_scenario(tmp_path / "healthy")
    assert len(calls) > 150
    for number, name in enumerate(calls, 1):
        if name in CAN_FAIL_SO[how]:
            disk = FaultyDisk(UnsyncedDisk(), number, once=once, how=how)
            run = Run(tmp_path / str(number), disk)
            await run.scenario()
            assert disk.calls[number - 1] == name
            check_with_healthy_disk(tmp_path / str(number), run.expected)


@pytest.mark.parametrize("once", [True, False], ids=["once", "from then on"])
async def test_a_power_cut_after_any_failure_leaves_the_acknowledged(tmp_path: Path, once: bool) -> None:
    rng = Random(7)
    calls = await calls_of_the_scenario(tmp_path / "healthy")
    for number in range(1, len(calls) + 1):
        platter = PowerCutDisk()
        run = Run(tmp_path / str(number), FaultyDisk(platter, number, once=once, how=rng.choice(list(How))))
        await run.scenario()
        for attempt in range(3):
            target = tmp_path / f"{number}-{attempt}"
            platter.cut_power(rng, tmp_path / str(number), target)
            check_with_healthy_disk(target, copy.deepcopy(run.expected))
