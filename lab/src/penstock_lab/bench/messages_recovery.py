"""How long does a store take to come back, by the size of its recovery log; and is that as fast as a file is written?

The log holds changed pages of a database, each at a random place: one by one (4 KiB), the worst case, or in runs of 16,
as a commit of SQLite often leaves them. It is played back from its beginning, without hints, with its fragments in a
folder; the files are built, and the log is taken over. The floor: as many bytes written into a file, one after the
other, with an fsync at the end, which is the limit of the disk. (A playback needs none: the log is durable.)
"""

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Final

from penstock_lab.bench.messages_site import MessageSite
from penstock_lab.bench.report import Options, RowRecorder

__all__ = ["PLAIN", "run"]

PAGE: Final = 4 << 10
RUN: Final = 16 * PAGE
PLAIN: Final = "plain sequential write, fsynced"
PLAYED: Final = {PAGE: "playback, pages of 4 KiB", RUN: "playback, runs of 64 KiB"}
BARRIER_BYTES: Final = 1 << 20
MB: Final = 1e6


async def run(recorder: RowRecorder, options: Options, site: MessageSite) -> None:
    """Playbacks by size; and how soon a hot standby has taken over."""
    sizes = [1 << 20, 2 << 20] if options.quick else [8 << 20, 32 << 20, 128 << 20]
    seconds: dict[str, list[tuple[float, float]]] = {side: [] for side in (*PLAYED.values(), PLAIN)}
    for size in sizes:
        recorder.progress(f"recovery of a log of {size >> 20} MiB")
        await _measure(recorder, options, site, size, seconds)
    recorder.grows("recovery by the size of the log", "MB of log", "seconds", seconds)
    recorder.progress("a hot standby takes over")
    await _take_over(recorder, options, site)


async def _measure(
    recorder: RowRecorder, options: Options, site: MessageSite, size: int, seconds: dict[str, list[tuple[float, float]]]
) -> None:
    cases: dict[str, Callable[[], Awaitable[float]]] = {}
    for write_bytes, side in PLAYED.items():
        log = f"bench/log-{size}-{write_bytes}"
        await _record(site, log, size, write_bytes)
        cases[side] = lambda log=log: _play(site, log)  # type: ignore[misc]
    cases[PLAIN] = lambda: asyncio.to_thread(_write, site.folder / "plain", size)
    times: dict[str, list[float]] = {side: [] for side in cases}
    for _ in range(options.repeats):
        for side, case in cases.items():
            times[side].append(await case())
    medians = {side: statistics.median(found) for side, found in times.items()}
    for side, median in medians.items():
        seconds[side].append((size / MB, median))
        against = medians[PLAIN] / median
        recorder.row("recovery", side, size / MB / median, "MB/s", log_mib=size >> 20, against_plain=round(against, 2))


async def _record(site: MessageSite, name: str, size: int, write_bytes: int) -> None:
    await site.create(name, replication=1)
    log = site.recovery_log(name, name)
    recording = await log.restore()
    rng = Random(1)
    content, count = rng.randbytes(write_bytes), size // write_bytes
    recording.created("pages")
    recorded = 0
    for _ in range(count):
        recording.wrote("pages", rng.randrange(count) * write_bytes, content)
        recorded += write_bytes
        if recorded >= BARRIER_BYTES:
            await log.commit(recording.barrier())
            recorded = 0
    await log.commit(recording.barrier())
    await log.close()
    await site.stored(name)


async def _play(site: MessageSite, name: str) -> float:
    """Play all of the log: below this root there are no hints."""
    log = site.recovery_log(name, name, root="/without-hints")
    began = time.perf_counter()
    await log.restore()
    took = time.perf_counter() - began
    await log.close()
    return took


def _write(path: Path, size: int) -> float:
    content = Random(2).randbytes(BARRIER_BYTES)
    began = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(size // BARRIER_BYTES):
            file.write(content)
        os.fsync(file.fileno())
    took = time.perf_counter() - began
    path.unlink()
    return took


async def _take_over(recorder: RowRecorder, options: Options, site: MessageSite) -> None:
    size = (2 if options.quick else 32) << 20
    await _record(site, "bench/log-standby", size, RUN)
    times = []
    for _ in range(options.repeats):
        log = site.recovery_log("bench/log-standby", "bench/log-standby", root="/without-hints")
        await log.standby()
        began = time.perf_counter()
        await log.restore()
        times.append((time.perf_counter() - began) * 1e3)
        await log.close()
    recorder.row("a hot standby takes over", "penstock", statistics.median(times), "ms", log_mib=size >> 20)
