"""How fast is the WAL? Durable appends by concurrency next to a bare loop, recovery by size, and catch-up reads.

Every append is durable before its answer, on both sides. Both run on the runtime's loop (uvloop) in one process, one
after the other in every round, each in a new preallocated file of the same folder. `TMPDIR` chooses the folder: on a
memory file system these figures mean nothing, as the row `fdatasync` would show. Recovery and reads find their files in
the page cache.
"""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import uvloop

from penstock.kernel.ids import Lsn
from penstock.plumbing.wal import LocalDisk, Wal, WalOptions
from penstock.plumbing.wal.segments import Segments
from penstock_lab.bench.report import Options, RowRecorder, interleave
from penstock_lab.bench.wal_bare import BareLoop

__all__ = ["QUESTION", "run"]

QUESTION: Final = "What do checksums, segments and limits cost the WAL, against a bare loop of writev and fdatasync?"

OURS: Final = "penstock"
BARE: Final = "bare loop"
RECORD: Final = bytes(range(100))
WRITERS: Final = (1, 16, 64, 256, 1024)
WRITERS_BAR: Final = 64
MIB: Final = 1024 * 1024
OPTIONS: Final = WalOptions()


class Load(msgspec.Struct, frozen=True):
    """What writers got who append one record after the other, each durable before the next, in one round."""

    records_per_s: float
    times: list[float]  # of every append, in seconds


Run = Callable[[Path, int, float], Coroutine[Any, Any, Load]]


def run(recorder: RowRecorder, options: Options) -> None:
    """Measure everything; the bar is that of the foundation."""
    with TemporaryDirectory(prefix="penstock-bench-wal-") as name:
        folder = Path(name)
        _fdatasync(recorder, folder, options)
        _appends(recorder, folder, options)
        _recovery(recorder, folder, options)
        _reads(recorder, folder, options)


def _fdatasync(recorder: RowRecorder, folder: Path, options: Options) -> None:
    """The floor of the disk alone: a write of one record into reserved space and its fdatasync."""
    recorder.progress("fdatasync alone")
    times = []
    fd = os.open(folder / "alone", os.O_RDWR | os.O_CREAT)
    try:
        os.posix_fallocate(fd, 0, MIB)
        os.fdatasync(fd)
        for number in range(20 if options.quick else 1000):
            before = time.perf_counter()
            os.pwrite(fd, RECORD, number * len(RECORD))
            os.fdatasync(fd)
            times.append(time.perf_counter() - before)
    finally:
        os.close(fd)
    recorder.row("fdatasync p50", "disk alone", statistics.median(times) * 1e6, "us", record_bytes=len(RECORD))


# Appends


def _appends(recorder: RowRecorder, folder: Path, options: Options) -> None:
    rates: dict[str, list[tuple[float, float]]] = {OURS: [], BARE: []}
    tails: dict[str, list[tuple[float, float]]] = {OURS: [], BARE: []}
    for writers in WRITERS:
        recorder.progress(f"appends, {writers} writers")
        figures: dict[str, float] = {}
        for side, loads in _interleaved_loads(folder, writers, options).items():
            figures[side] = statistics.median(load.records_per_s for load in loads)
            times = sorted(chain.from_iterable(load.times for load in loads))
            p50_us, p99_us = (times[len(times) * percent // 100] * 1e6 for percent in (50, 99))
            params = {"writers": writers, "record_bytes": len(RECORD)}
            recorder.row("durable appends", side, figures[side], "records/s", **params)
            recorder.row("durable append p50", side, p50_us, "us", **params)
            recorder.row("durable append p99", side, p99_us, "us", **params)
            rates[side].append((writers, figures[side]))
            tails[side].append((writers, p99_us))
        if writers == WRITERS_BAR:
            recorder.bar("wal_vs_bare_loop", figures[OURS] / figures[BARE], at_least=0.8)
    recorder.grows("durable appends by concurrency", "writers", "records/s", rates)
    recorder.grows("p99 of a durable append by concurrency", "writers", "us", tails)


def _interleaved_loads(folder: Path, writers: int, options: Options) -> dict[str, list[Load]]:
    """Both sides in turn, in many short rounds: a disk which stalls for a moment spoils few of them."""
    loads: dict[str, list[Load]] = {OURS: [], BARE: []}
    sides: dict[str, Run] = {OURS: _drive_ours, BARE: _drive_bare}
    seconds = 0.01 if options.quick else 0.1
    rounds = options.repeats * (1 if options.quick else 15 if writers == WRITERS_BAR else 5)
    for _ in range(rounds):
        for side, drive in sides.items():
            with TemporaryDirectory(dir=folder) as name:
                loads[side].append(_on_uvloop(drive(Path(name), writers, seconds)))
    return loads


async def _drive_ours(folder: Path, writers: int, seconds: float) -> Load:
    async with await Wal.open(folder / "wal", OPTIONS) as wal:
        return await _drive(lambda record: wal.append((record,)), writers, seconds)


async def _drive_bare(folder: Path, writers: int, seconds: float) -> Load:
    bare = BareLoop(folder / "bare", OPTIONS.segment_bytes)
    try:
        return await _drive(bare.append, writers, seconds)
    finally:
        await bare.close()


async def _drive(append: Callable[[bytes], Awaitable[object]], writers: int, seconds: float) -> Load:
    times: list[float] = []
    clock = time.perf_counter
    start = clock()
    end = start + seconds

    async def write() -> None:
        now = clock()
        while True:
            before = now
            await append(RECORD)
            now = clock()
            times.append(now - before)
            if now > end:
                return

    await asyncio.gather(*(write() for _ in range(writers)))
    return Load(len(times) / (clock() - start), times)


# Recovery and reads


class _UnsyncedDisk(LocalDisk):
    """For building logs whose building is not measured."""

    def fdatasync(self, fd: int) -> None:
        pass


def _build(folder: Path, payload_bytes: int, batch_records: int) -> None:
    """Write a log of this number of bytes."""
    segments, _ = Segments.open(_UnsyncedDisk(), folder, OPTIONS.segment_bytes)
    batch = [RECORD] * batch_records
    body_bytes = (len(RECORD) + 8) * batch_records
    for _ in range(payload_bytes // (len(RECORD) * batch_records)):
        segments.make_room(body_bytes)
        segments.write(batch)
    segments.mark()
    segments.close()


def _recovery(recorder: RowRecorder, folder: Path, options: Options) -> None:
    """Opening a log checks every byte of it."""
    series: dict[str, list[tuple[float, float]]] = {}
    cases = {64: (1,) if options.quick else (4, 16, 64, 256), 1: (1,) if options.quick else (4, 16)}
    for batch_records, sizes in cases.items():
        side = f"{batch_records} records to a batch"
        series[side] = []
        for mib in sizes:
            recorder.progress(f"recovery, {mib} MiB, {side}")
            log = folder / f"recovery-{batch_records}-{mib}"
            _build(log, mib * MIB, batch_records)
            rate = interleave({side: partial(_recovery_rate, log)}, options.repeats)[side]
            recorder.row("recovery", side, rate, "MB/s", payload_mib=mib, record_bytes=len(RECORD))
            series[side].append((mib, rate))
    recorder.grows("recovery by size of the log", "MiB of records", "MB/s", series)


def _recovery_rate(log: Path) -> float:
    """Bytes of the log, heads and all, checked in a second."""
    before = time.perf_counter()
    segments, recovery = Segments.open(LocalDisk(), log, OPTIONS.segment_bytes)
    elapsed = time.perf_counter() - before
    segments.close()
    return recovery.bytes_checked / elapsed / 1e6


def _reads(recorder: RowRecorder, folder: Path, options: Options) -> None:
    """The reads of a follower that catches up: a whole log from its first record on."""
    log = folder / "reads"
    mib = 1 if options.quick else 64
    _build(log, mib * MIB, 64)
    recorder.progress(f"catch-up reads, {mib} MiB")
    cases = {
        "plain reads of the files": lambda: _plain_rate(log),
        OURS: lambda: _on_uvloop(_walk_rate(log, writers=0)),
        "penstock, a view of each record": lambda: _on_uvloop(_walk_rate(log, writers=0, is_by_record=True)),
        "penstock, beside 16 writers": lambda: _on_uvloop(_walk_rate(log, writers=16)),
    }
    for side, rate in interleave(cases, options.repeats).items():
        recorder.row("catch-up read", side, rate, "MB/s", payload_mib=mib, record_bytes=len(RECORD), batch_records=64)


def _plain_rate(log: Path) -> float:
    """The files read and nothing done with the bytes."""
    before = time.perf_counter()
    size = 0
    for path in log.glob("*.wal"):
        with path.open("rb", buffering=0) as file:
            while data := file.read(MIB):
                size += len(data)
    return size / (time.perf_counter() - before) / 1e6


async def _walk_rate(log: Path, *, writers: int, is_by_record: bool = False) -> float:
    """Payload bytes in a second."""
    async with await Wal.open(log, OPTIONS) as wal:
        last_lsn = wal.last_lsn
        writing = [asyncio.ensure_future(_append_forever(wal)) for _ in range(writers)]
        before = time.perf_counter()
        size = 0
        async for records in wal.walk(wal.first_lsn):
            size += sum(map(len, records)) if is_by_record else len(records.payload)
            if records.last_lsn >= last_lsn:
                break
        elapsed = time.perf_counter() - before
        for task in writing:
            task.cancel()
        await asyncio.gather(*writing, return_exceptions=True)
        await wal.truncate(Lsn(last_lsn))
        return size / elapsed / 1e6


async def _append_forever(wal: Wal) -> None:
    while True:
        await wal.append((RECORD,))


def _on_uvloop(main: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
