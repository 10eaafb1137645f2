"""How fast is an append that every replica has, next to NATS JetStream with three replicas in files?

Three broker processes, R = 3, acknowledged when all have it; JetStream when a majority has it. Neither waits for an
fsync. Both run on the same filesystem, and one is loaded at a time, in turns.
"""

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop

from penstock.base.errors import PenstockError
from penstock.base.ids import Offset
from penstock.bench.peers.nats import Nats, nats_binary, nats_cluster
from penstock.bench.report import Options, Recorder, interleave
from penstock.client.append_service import AppendService
from penstock.client.journal import Journals
from penstock.journal.spec import JournalSpec
from penstock.runtime.cluster.local import LocalCluster

__all__ = ["QUESTION", "run"]

QUESTION = "How fast is an append that every replica has, next to NATS JetStream with three replicas?"

JOURNAL = "bench/journal"
READY_S = 60.0
MB = 1e6
SMALL, MIDDLE, LARGE = 100, 10 << 10, 1 << 20
BARS = ("mbps_10k_vs_nats", "mbps_1m_vs_nats", "msgs_100b_vs_nats")


def run(recorder: Recorder, options: Options) -> None:
    """Throughput by size, latency at one in flight, reads behind the appends and from the start."""
    seconds = 0.5 if options.quick else 4.0
    with _folder() as folder, ExitStack() as stack:
        recorder.progress("starting clusters")
        ours = stack.enter_context(_cluster(folder / "brokers", 3))
        nats = _nats(recorder, stack, folder)
        _compare(recorder, options, seconds, ours, nats)
        _latency(recorder, options, seconds, ours, nats)
        _reads(recorder, options, seconds, ours)
    if not options.quick:
        _grow_replicas(recorder, options, seconds)


def _compare(recorder: Recorder, options: Options, seconds: float, ours: "Ours", nats: Nats | None) -> None:
    for what, size, in_flight, bar, at_least in (
        ("10 KiB appends, 64 in flight", MIDDLE, 64, BARS[0], 2.0),
        ("1 MiB appends, 4 in flight", LARGE, 4, BARS[1], 1.5),
    ):
        recorder.progress(what)
        cases: dict[str, Callable[[], float]] = {"penstock": lambda: ours.append(size, in_flight, seconds)[0]}  # noqa: B023
        if nats is not None:
            cases["nats"] = lambda: nats.publish(size, in_flight, seconds)[0]  # noqa: B023
        rates = interleave(cases, options.repeats)
        for side, rate in rates.items():
            recorder.row(what, side, rate * size / MB, "MB/s", bytes=size, in_flight=in_flight, replicas=3)
        if nats is not None:
            recorder.bar(bar, rates["penstock"] / rates["nats"], at_least=at_least)
    what = "100-byte messages, 256 publishers"
    recorder.progress(what)
    cases = {"penstock": lambda: ours.serve(SMALL, 256, seconds)}
    if nats is not None:
        cases["nats"] = lambda: nats.publish(SMALL, 256, seconds)[0]
    rates = interleave(cases, options.repeats)
    for side, rate in rates.items():
        recorder.row(what, side, rate, "messages/s", bytes=SMALL, in_flight=256, replicas=3)
    if nats is not None:
        recorder.bar(BARS[2], rates["penstock"] / rates["nats"], at_least=2.0)


def _latency(recorder: Recorder, options: Options, seconds: float, ours: "Ours", nats: Nats | None) -> None:
    recorder.progress("one in flight")
    sides: dict[str, Callable[[], list[float]]] = {"penstock": lambda: ours.append(MIDDLE, 1, seconds)[1]}
    if nats is not None:
        sides["nats"] = lambda: nats.publish(MIDDLE, 1, seconds)[1]
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(options.repeats):
        for side, load in sides.items():
            times[side] += load()
    for side, found in times.items():
        found.sort()
        for name, part in (("p50", 0.50), ("p99", 0.99)):
            latency = found[min(len(found) - 1, int(part * len(found)))] * 1e6
            recorder.row(f"10 KiB, 1 in flight: {name}", side, latency, "us", bytes=MIDDLE, in_flight=1)


def _reads(recorder: Recorder, options: Options, seconds: float, ours: "Ours") -> None:
    recorder.progress("reads")
    cases = {
        "tailing behind 10 KiB appends, 64 in flight": lambda: ours.tail(seconds),
        "from the start, out of the Spools": lambda: ours.read_all(),
    }
    for what, rate in interleave(cases, options.repeats).items():
        recorder.row(f"reads, {what}", "penstock", rate / MB, "MB/s")


def _grow_replicas(recorder: Recorder, options: Options, seconds: float) -> None:
    curve: list[tuple[float, float]] = []
    for replicas in (1, 3, 5):
        recorder.progress(f"{replicas} replicas")
        with _folder() as folder, _cluster(folder / "brokers", replicas) as ours:
            rate = statistics.median(ours.append(MIDDLE, 64, seconds)[0] for _ in range(options.repeats))
        recorder.row(
            "10 KiB appends, 64 in flight, by replicas", "penstock", rate * MIDDLE / MB, "MB/s", replicas=replicas
        )
        curve.append((replicas, rate * MIDDLE / MB))
    recorder.grows("10 KiB appends, 64 in flight", "replicas", "MB/s", {"penstock": curve})


class Ours:
    """A running cluster of ours, loaded from this process."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def append(self, size: int, in_flight: int, seconds: float) -> tuple[float, list[float]]:
        """Appends per second, and how long each took."""
        return uvloop.run(self._append(size, in_flight, seconds))

    def serve(self, size: int, publishers: int, seconds: float) -> float:
        """The same through the append service: small ones become few large ones."""
        return uvloop.run(self._serve(size, publishers, seconds))

    def tail(self, seconds: float) -> float:
        """Bytes per second which a reader behind the appends got."""
        return uvloop.run(self._tail(seconds))

    def read_all(self) -> float:
        return uvloop.run(self._read_all())

    def _journals(self) -> Journals:
        return Journals(self._cluster.addresses("broker"))

    async def _append(self, size: int, in_flight: int, seconds: float) -> tuple[float, list[float]]:
        async with self._journals() as journals:
            await journals.append(JOURNAL, b"warm", timeout=READY_S)
            return await _load(lambda data: journals.append(JOURNAL, data, timeout=READY_S), size, in_flight, seconds)

    async def _serve(self, size: int, publishers: int, seconds: float) -> float:
        async with self._journals() as journals, AppendService(journals, writer="bench") as service:
            await service.append(JOURNAL, b"warm")
            return (await _load(lambda data: service.append(JOURNAL, data), size, publishers, seconds))[0]

    async def _tail(self, seconds: float) -> float:
        async with self._journals() as journals:
            begin = (await journals.append(JOURNAL, b"warm", timeout=READY_S)).end
            got, began = Offset(0), time.perf_counter()

            async def follow() -> None:
                nonlocal got
                async for chunk in journals.read(JOURNAL, begin, follow=True):
                    got = chunk.end

            following = asyncio.create_task(follow())
            await _load(lambda data: journals.append(JOURNAL, data, timeout=READY_S), MIDDLE, 64, seconds)
            took = time.perf_counter() - began
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            return max(0, got - begin) / took

    async def _read_all(self) -> float:
        async with self._journals() as journals:
            began, size = time.perf_counter(), 0
            async for chunk in journals.read(JOURNAL, 0, end=256 << 20):
                size += len(chunk.content)
            return size / (time.perf_counter() - began)


async def _load(
    append: Callable[[bytes], "asyncio.Future[object] | object"], size: int, in_flight: int, seconds: float
) -> tuple[float, list[float]]:
    data, times = b"x" * size, list[float]()
    end = time.perf_counter() + seconds

    async def writer() -> None:
        while (start := time.perf_counter()) < end:
            await append(data)  # type: ignore[misc]
            times.append(time.perf_counter() - start)

    began = time.perf_counter()
    await asyncio.gather(*(writer() for _ in range(in_flight)))
    return len(times) / (time.perf_counter() - began), times


@contextmanager
def _cluster(folder: Path, brokers: int) -> Iterator[Ours]:
    cluster = LocalCluster.create(folder, nodes=0, brokers=brokers, lease_ms=20_000)
    try:
        cluster.start_all()
        asyncio.run(_until_it_answers(cluster, brokers))
        yield Ours(cluster)
    finally:
        cluster.stop_all()


async def _until_it_answers(cluster: LocalCluster, replicas: int) -> None:
    deadline = time.monotonic() + READY_S
    async with Journals(cluster.addresses("broker")) as journals:
        while True:
            try:
                await journals.create(JournalSpec(name=JOURNAL, replication=replicas))
                break
            except PenstockError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.1)
        await journals.append(JOURNAL, b"warm", timeout=READY_S)


def _nats(recorder: Recorder, stack: ExitStack, folder: Path) -> Nats | None:
    if nats_binary() is None:
        why = "no nats-server on the PATH (Debian: apt-get install nats-server)"
        recorder.peer_missing("nats", why, bars=BARS)
        return None
    return stack.enter_context(nats_cluster(folder))


@contextmanager
def _folder() -> Iterator[Path]:
    """Beside the work, not in /tmp, which is memory on many machines."""
    folder = Path(tempfile.mkdtemp(prefix=".bench-journal-", dir=Path.cwd()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
