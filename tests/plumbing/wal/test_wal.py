import asyncio
import errno
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.plumbing.wal.disks import FaultyDisk, GatedDisk, UnsyncedDisk

from penstock.kernel.errors import (
    AlreadyClosed,
    ConfigError,
    DiskFull,
    InvalidArgument,
    LimitExceeded,
    Overloaded,
    PenstockError,
    ShuttingDown,
    Unavailable,
    WalCorrupt,
    WalPoisoned,
    Written,
)
from penstock.kernel.ids import Lsn
from penstock.plumbing.wal import Disk, StateFile, Wal, WalOptions

SMALL = WalOptions(
    segment_bytes=4096, batch_bytes_max=4096, record_bytes_max=1000, queue_bytes_max=5000, mark_after_s=None
)


async def opened(folder: Path, disk: Disk | None = None, options: WalOptions = SMALL) -> Wal:
    return await Wal.open(folder, options, disk=disk or UnsyncedDisk())


async def contents(wal: Wal, *, include_unsynced: bool = False) -> list[bytes]:
    walk = wal.walk(wal.first_lsn, include_unsynced=include_unsynced)
    return [bytes(record) async for records in walk for record in records]


async def arrival(disk: GatedDisk) -> None:
    """Wait until an fdatasync waits at the gate."""
    assert await asyncio.to_thread(disk.arrived.wait, 60)


async def test_what_is_appended_is_there_after_reopening(tmp_path: Path) -> None:
    async with await Wal.open(tmp_path / "new" / "folder") as wal:
        assert (wal.first_lsn, wal.last_lsn, wal.durable_lsn) == (1, 0, 0)
        assert await wal.append([b"one", bytearray(b"two"), memoryview(b"-three-")[1:6]]) == 3
        assert await wal.append([b""]) == 4
    async with await Wal.open(tmp_path / "new" / "folder") as wal:
        assert (wal.first_lsn, wal.last_lsn, wal.durable_lsn) == (1, 4, 4)
        assert await contents(wal) == [b"one", b"two", b"three", b""]
        assert (wal.recovery.last_lsn, wal.recovery.torn, wal.recovery.segments) == (4, None, 1)


async def test_a_record_is_what_it_was_at_the_call(tmp_path: Path) -> None:
    async with await opened(tmp_path) as wal:
        record = bytearray(b"before")
        records: list[bytes | bytearray] = [record, b"other"]
        appended = wal.append(records)
        record[:] = b"after!"
        records.clear()
        assert await appended == 2
        assert await contents(wal) == [b"before", b"other"]


async def test_appends_of_many_tasks_share_batches_and_keep_their_order(tmp_path: Path) -> None:
    disk = FaultyDisk(UnsyncedDisk())
    async with await opened(tmp_path, disk, WalOptions()) as wal:
        disk.calls.clear()
        lsns = await asyncio.gather(*(wal.append([b"%d" % number]) for number in range(100)))
        assert lsns == list(range(1, 101))
        assert disk.calls == ["pwrite", "fdatasync"]
        counted = wal.statistics
        assert (counted.batches, counted.records, counted.bytes) == (1, 100, 190 + 8 * 100)
        assert counted.commit_seconds > 0
        assert await contents(wal) == [b"%d" % number for number in range(100)]


async def test_one_wake_up_of_the_loop_serves_a_whole_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await opened(tmp_path) as wal:
        loop = asyncio.get_running_loop()
        wake_ups: list[object] = []
        call_soon_threadsafe = loop.call_soon_threadsafe

        def counted(callback: Callable[..., object], *args: object) -> asyncio.Handle:
            wake_ups.append(callback)
            return call_soon_threadsafe(callback, *args)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        await asyncio.gather(*(wal.append([b"%d" % number]) for number in range(100)))
        monkeypatch.undo()
        assert len(wake_ups) == 1


async def test_those_who_submit_are_told_in_order(tmp_path: Path) -> None:
    told: list[tuple[int, PenstockError | None]] = []
    all_told = asyncio.Event()

    def tell(lsn: Lsn, error: PenstockError | None) -> None:
        told.append((lsn, error))
        if len(told) == 6:
            all_told.set()

    async with await opened(tmp_path) as wal:
        assert wal.submit([b"one", b"two"], tell) == 2
        assert (wal.last_lsn, wal.durable_lsn) == (2, 0)
        assert wal.submit([b"three"], tell) == 3
        wal.submit_truncate(Lsn(1), tell)
        wal.submit([b"TWO"], tell)
        wal.submit_state(StateFile(tmp_path / "state", UnsyncedDisk()), b"state", tell)
        wal.submit_trim(Lsn(1), tell)
        assert told == []
        await all_told.wait()
        assert told == [(2, None), (3, None), (1, None), (2, None), (2, None), (1, None)]
        assert await contents(wal) == [b"one", b"TWO"]
        assert StateFile(tmp_path / "state").load() == b"state"


async def test_readers_see_what_is_durable_unless_they_ask_for_more(tmp_path: Path) -> None:
    disk = GatedDisk()
    async with await opened(tmp_path, disk) as wal:
        await wal.append([b"durable"])
        disk.shut()
        appending = wal.append([b"written"])
        await arrival(disk)
        assert (wal.durable_lsn, wal.last_lsn, wal.queued_bytes) == (1, 2, 15)
        assert await contents(wal) == [b"durable"]
        assert not await wal.read(Lsn(2))
        assert await contents(wal, include_unsynced=True) == [b"durable", b"written"]
        disk.gate.set()
        await appending
        assert await contents(wal) == [b"durable", b"written"]
        assert (wal.durable_lsn, wal.queued_bytes) == (2, 0)


async def test_from_the_call_of_a_truncation_on_nothing_behind_it_is_durable(tmp_path: Path) -> None:
    disk = GatedDisk()
    async with await opened(tmp_path, disk) as wal:
        await wal.append([b"one", b"two", b"three"])
        disk.shut()
        appending = wal.append([b"four"])
        await arrival(disk)
        truncating = asyncio.ensure_future(wal.truncate(Lsn(2)))
        await asyncio.sleep(0)
        again = wal.append([b"THREE", b"FOUR"])
        assert (wal.last_lsn, wal.durable_lsn) == (4, 2)
        assert await contents(wal) == [b"one", b"two"]
        assert await contents(wal, include_unsynced=True) == [b"one", b"two"]
        disk.gate.set()
        assert await appending == 4  # it was durable, before it was truncated
        await truncating
        assert await again == 4
        assert (wal.last_lsn, wal.durable_lsn) == (4, 4)
        assert await contents(wal) == [b"one", b"two", b"THREE", b"FOUR"]


async def test_an_append_waits_for_room_and_a_submit_is_refused(tmp_path: Path) -> None:
    disk = GatedDisk()
    async with await opened(tmp_path, disk) as wal:
        disk.shut()
        first = wal.append([bytes(900)] * 5)
        await arrival(disk)
        assert wal.queued_bytes == 4540
        waiting = [wal.append([bytes(800)]), wal.append([b"small"]), wal.append([b"cancelled"])]
        with pytest.raises(Overloaded):
            wal.submit([b"x"], lambda lsn, error: None)  # would fit, but others came first
        assert wal.last_lsn == 5
        waiting[2].cancel()
        disk.gate.set()
        assert await first == 5
        assert [await waiting[0], await waiting[1]] == [6, 7]
        assert await wal.append([b"last"]) == 8
        assert (await contents(wal))[5:] == [bytes(800), b"small", b"last"]


async def test_who_raises_when_told_harms_nobody_else(tmp_path: Path) -> None:
    raised: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: raised.append(context["exception"]))

    def tell(lsn: Lsn, error: PenstockError | None) -> None:
        raise ZeroDivisionError

    async with await opened(tmp_path) as wal:
        wal.submit([b"one"], tell)
        wal.submit_trim(Lsn(1), tell)
        assert await wal.append([b"two"]) == 2
    assert [type(error) for error in raised] == [ZeroDivisionError] * 2


async def test_a_cancelled_append_still_takes_place(tmp_path: Path) -> None:
    async with await opened(tmp_path) as wal:
        appending = wal.append([b"one"])
        appending.cancel()
        assert await wal.append([b"two"]) == 2
        assert await contents(wal) == [b"one", b"two"]


@pytest.mark.parametrize(
    ("records", "error"),
    [
        ([], InvalidArgument),
        ([bytes(1001)], LimitExceeded),
        ([bytes(1000)] * 5, LimitExceeded),
    ],
    ids=["none", "too large", "too many"],
)
async def test_what_cannot_be_appended_is_refused(
    tmp_path: Path, records: list[bytes], error: type[PenstockError]
) -> None:
    async with await opened(tmp_path) as wal:
        with pytest.raises(error):
            wal.append(records)
        with pytest.raises(error):
            wal.submit(records, lambda lsn, error: None)
        with pytest.raises(TypeError):
            wal.append([b"one", 2])  # type: ignore[list-item]
        assert await wal.append([bytes(1000)] * 4) == 4


async def test_what_lies_outside_the_log_is_refused(tmp_path: Path) -> None:
    async with await opened(tmp_path) as wal:
        for _ in range(8):
            await wal.append([bytes(900)])
        await wal.trim(Lsn(6))
        assert wal.first_lsn == 5
        for lsn in (3, 9):
            with pytest.raises(InvalidArgument, match="cannot truncate"):
                await wal.truncate(Lsn(lsn))
        with pytest.raises(InvalidArgument, match="cannot trim"):
            await wal.trim(Lsn(10))
        for lsn in (0, 10):
            with pytest.raises(InvalidArgument, match="cannot read"):
                await wal.read(Lsn(lsn))
            with pytest.raises(InvalidArgument, match="cannot read"):
                wal.walk(Lsn(lsn))
        assert not await wal.read(Lsn(9))
        await wal.truncate(Lsn(5))
        assert await contents(wal) == [bytes(900)]


async def test_a_truncation_may_not_reach_into_what_is_being_trimmed(tmp_path: Path) -> None:
    async with await opened(tmp_path) as wal:
        await wal.append([b"one", b"two", b"three"])
        trimming = asyncio.ensure_future(wal.trim(Lsn(3)))
        await asyncio.sleep(0)
        with pytest.raises(InvalidArgument):
            await wal.truncate(Lsn(1))
        await trimming
        await wal.truncate(Lsn(2))
        assert wal.last_lsn == 2


async def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    async with await opened(tmp_path):
        with pytest.raises(Unavailable, match="in use"):
            await opened(tmp_path)
    await (await opened(tmp_path)).close()


async def test_closing_makes_durable_what_is_queued(tmp_path: Path) -> None:
    wal = await opened(tmp_path)
    appending = wal.append([b"queued"])
    await wal.close()
    assert appending.result() == 1
    await wal.close()
    for attempt in (lambda: wal.append([b"x"]), lambda: wal.submit([b"x"], lambda lsn, error: None)):
        with pytest.raises(AlreadyClosed):
            attempt()
    with pytest.raises(AlreadyClosed):
        await wal.truncate(Lsn(0))
    with pytest.raises(AlreadyClosed):
        await wal.read(Lsn(1))
    async with await opened(tmp_path) as wal:
        assert await contents(wal) == [b"queued"]


async def test_who_waits_for_room_when_it_is_closed_is_told(tmp_path: Path) -> None:
    disk = GatedDisk()
    wal = await opened(tmp_path, disk)
    disk.shut()
    first = wal.append([bytes(900)] * 5)
    await arrival(disk)
    waiting = wal.append([bytes(800)])
    closing = asyncio.ensure_future(wal.close())
    await asyncio.sleep(0)
    with pytest.raises(ShuttingDown):
        await waiting
    disk.gate.set()
    await closing
    assert await first == 5


async def test_a_closed_log_is_proven_to_its_end(tmp_path: Path) -> None:
    async with await opened(tmp_path) as wal:
        await wal.append([b"record"])
    path = tmp_path / "00000000000000000001.wal"
    path.write_bytes(path.read_bytes().replace(b"record", b"rEcord"))
    with pytest.raises(WalCorrupt) as caught:
        await opened(tmp_path)
    assert caught.value.details["lsn"] == 1


async def test_a_failed_fdatasync_poisons_everything_after(tmp_path: Path) -> None:
    disk = GatedDisk()
    faulty = FaultyDisk(disk, once=True)
    wal = await opened(tmp_path, faulty, msgspec.structs.replace(SMALL, segment_bytes=65536))
    await wal.append([b"good"])
    disk.shut()
    in_time = wal.append([b"in time"])
    await arrival(disk)
    failing = [wal.append([bytes(1000)]) for _ in range(4)]
    waiting = [wal.append([bytes(1000)]) for _ in range(3)]
    truncating = asyncio.ensure_future(wal.truncate(Lsn(1)))
    await asyncio.sleep(0)
    faulty.fail_at = len(faulty.calls) + 2
    disk.gate.set()
    assert await in_time == 2
    for written, futures in ((Written.UNKNOWN, failing), (Written.NO, waiting), (Written.NO, [truncating])):
        for future in futures:
            with pytest.raises(WalPoisoned, match="Input/output error") as caught:
                await future
            assert caught.value.written is written
    for attempt in (wal.append, lambda records: wal.submit(records, lambda lsn, error: None)):
        with pytest.raises(WalPoisoned) as caught:
            attempt([b"later"])
        assert caught.value.written is Written.NO
    assert await contents(wal) == [b"good"]  # of what is durable, what the truncation would have left
    await wal.close()
    async with await opened(tmp_path) as wal:
        assert (await contents(wal))[:2] == [b"good", b"in time"]


async def test_a_full_disk_is_found_before_the_record_is_written(tmp_path: Path) -> None:
    disk = FaultyDisk(UnsyncedDisk(), code=errno.ENOSPC)
    wal = await opened(tmp_path, disk)
    await wal.append([bytes(900)] * 4)
    disk.fail_at = len(disk.calls) + 2
    with pytest.raises(WalPoisoned, match="no space left while beginning a segment") as caught:
        await wal.append([bytes(500)])
    assert disk.calls[disk.fail_at - 1] == "fallocate"
    assert isinstance(caught.value.__cause__, DiskFull)
    assert caught.value.written is Written.NO
    assert "free space" in caught.value.next_step
    await wal.close()
    async with await opened(tmp_path) as wal:
        assert wal.last_lsn == 4


async def test_a_close_which_cannot_mark_the_end_says_so_and_gives_the_folder_back(tmp_path: Path) -> None:
    disk = FaultyDisk(UnsyncedDisk())
    wal = await opened(tmp_path, disk)
    await wal.append([b"record"])
    disk.die()
    with pytest.raises(WalPoisoned, match="marking the end"):
        await wal.close()
    async with await opened(tmp_path) as wal:
        assert await contents(wal) == [b"record"]


async def test_an_opening_which_is_cancelled_gives_the_folder_back(tmp_path: Path) -> None:
    disk = GatedDisk()
    disk.shut()
    opening = asyncio.ensure_future(opened(tmp_path, disk))
    await arrival(disk)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    with pytest.raises(Unavailable):
        await opened(tmp_path)
    disk.gate.set()
    while True:
        try:
            wal = await opened(tmp_path)
        except Unavailable:
            continue
        break
    await wal.close()


async def test_a_torn_tail_is_dropped_and_reported(tmp_path: Path) -> None:
    disk = FaultyDisk(UnsyncedDisk())
    wal = await opened(tmp_path, disk)
    await wal.append([b"one"])
    await wal.append([b"two"])
    disk.die()
    with pytest.raises(WalPoisoned):
        await wal.close()
    path = tmp_path / "00000000000000000001.wal"
    path.write_bytes(path.read_bytes().replace(b"two", b"t\0\0"))
    async with await opened(tmp_path) as wal:
        torn = wal.recovery.torn
        assert torn is not None
        assert (torn.file, torn.lsn, torn.why) == (str(path), 2, "the record does not match its checksum")
        assert await contents(wal) == [b"one"]


async def test_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        await Wal.open(tmp_path, WalOptions(segment_bytes=1))


def test_the_example_in_the_reference_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    page = (Path(__file__).parents[3] / "docs/reference/wal.md").read_text()
    [example] = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    exec(example, {})
    assert capsys.readouterr().out.splitlines()[-1] == "1 [b'first', b'another second']"
