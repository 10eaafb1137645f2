"""How fast is a transaction that a majority has on its disks, next to etcd and Tarantool?

Three node processes, fdatasync before every acknowledgement, 100-byte sync transactions. Every cluster runs on the same
filesystem; one is loaded at a time, in turns.
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

from penstock.kernel.errors import PenstockError
from penstock.quorum.client.operator import Operators
from penstock.quorum.client.quorum import QuorumLog
from penstock.server.cluster.local import LocalCluster
from penstock_lab.bench.peers.etcd import Etcd, etcd_binary, etcd_cluster
from penstock_lab.bench.peers.tarantool import Tarantool, tarantool_binary, tarantool_cluster
from penstock_lab.bench.report import Options, RowRecorder, interleave

__all__ = ["QUESTION", "run"]

QUESTION = "How fast is a transaction that a majority has on its disks, next to etcd and Tarantool?"

OPS = b"x" * 100
READY_S = 60.0


def run(recorder: RowRecorder, options: Options) -> None:
    """Rates, latencies, growth with nodes and with appends in flight, and async behind sync."""
    seconds = 0.5 if options.quick else 3.0
    with _folder() as folder, ExitStack() as stack:
        recorder.progress("starting clusters")
        three = stack.enter_context(_cluster(folder / "three", 3))
        etcd = _etcd(recorder, stack, folder)
        tarantool = _tarantool(recorder, stack, folder)
        _compare(recorder, options, seconds, three, etcd, tarantool)
        _grow_in_flight(recorder, options, seconds, three)
        _mix(recorder, options, seconds, three)
    if not options.quick:
        _grow_nodes(recorder, options, seconds)


def _compare(
    recorder: RowRecorder,
    options: Options,
    seconds: float,
    ours: "OurQuorum",
    etcd: Etcd | None,
    tarantool: Tarantool | None,
) -> None:
    recorder.progress("64 in flight, side by side")
    cases: dict[str, Callable[[], float]] = {"penstock": lambda: ours.appends_per_second(64, seconds)}
    if etcd is not None:
        cases["etcd"] = lambda: etcd.puts_per_second(64, seconds, OPS)
    if tarantool is not None:
        cases["tarantool"] = lambda: tarantool.inserts_per_second(64, seconds, len(OPS))
    rates = interleave(cases, options.repeats)
    for side, rate in rates.items():
        recorder.row("sync, 64 in flight, 3 nodes", side, rate, "transactions/s", in_flight=64, nodes=3, bytes=len(OPS))
    recorder.progress("one in flight, side by side")
    latencies: dict[str, Callable[[], float]] = {"penstock": lambda: ours.append_p50_us(seconds)}
    if etcd is not None:
        latencies["etcd"] = lambda: etcd.put_p50_us(seconds, OPS)
    p50 = interleave(latencies, options.repeats)
    for side, latency in p50.items():
        recorder.row("sync, 1 in flight, 3 nodes: p50", side, latency, "us", in_flight=1, nodes=3, bytes=len(OPS))
    if etcd is not None:
        recorder.bar("sync64_vs_etcd", rates["penstock"] / rates["etcd"], at_least=3.0)
        recorder.bar("p50_vs_etcd", p50["penstock"] / p50["etcd"], at_most=1.0)
    if tarantool is not None:
        recorder.row("runs which stalled (rate up to the stall)", "tarantool", tarantool.stalls, "runs")
        recorder.bar("sync64_vs_tarantool", rates["penstock"] / rates["tarantool"], at_least=1.0)


def _grow_in_flight(recorder: RowRecorder, options: Options, seconds: float, ours: "OurQuorum") -> None:
    widths = (1, 64) if options.quick else (1, 16, 64, 256)
    curve: list[tuple[float, float]] = []
    for width in widths:
        recorder.progress(f"{width} in flight")
        rate = statistics.median(ours.appends_per_second(width, seconds) for _ in range(options.repeats))
        recorder.row("sync, by appends in flight, 3 nodes", "penstock", rate, "transactions/s", in_flight=width)
        curve.append((width, rate))
    recorder.grows("sync transactions/s, 3 nodes", "appends in flight", "transactions/s", {"penstock": curve})


def _grow_nodes(recorder: RowRecorder, options: Options, seconds: float) -> None:
    curve: list[tuple[float, float]] = []
    for nodes in (1, 3, 5):
        recorder.progress(f"{nodes} nodes")
        with _folder() as folder, _cluster(folder / "cluster", nodes) as cluster:
            rate = statistics.median(cluster.appends_per_second(64, seconds) for _ in range(options.repeats))
        recorder.row("sync, 64 in flight, by nodes", "penstock", rate, "transactions/s", nodes=nodes, in_flight=64)
        curve.append((nodes, rate))
    recorder.grows("sync transactions/s, 64 in flight", "nodes", "transactions/s", {"penstock": curve})


def _mix(recorder: RowRecorder, options: Options, seconds: float, ours: "OurQuorum") -> None:
    """P8: async after an empty limbo waits for the local disk only; after a pending sync one, for its quorum."""
    recorder.progress("async alone, and behind sync")
    cases = {
        "async behind an empty limbo": lambda: ours.async_p50_us(seconds, behind_sync=False),
        "async behind a pending sync": lambda: ours.async_p50_us(seconds, behind_sync=True),
        "sync": lambda: ours.append_p50_us(seconds),
    }
    for what, p50 in interleave(cases, options.repeats).items():
        recorder.row(f"mixed load, {what}: p50", "penstock", p50, "us", in_flight=1, nodes=3)


class OurQuorum:
    """A running cluster of Penstock, loaded from this process."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def appends_per_second(self, in_flight: int, seconds: float) -> float:
        return uvloop.run(self._load(in_flight, seconds))[0]

    def append_p50_us(self, seconds: float) -> float:
        return uvloop.run(self._load(1, seconds))[1]

    def async_p50_us(self, seconds: float, *, behind_sync: bool) -> float:
        return uvloop.run(self._load_async(seconds, behind_sync))

    async def _load(self, in_flight: int, seconds: float) -> tuple[float, float]:
        async with self._log() as log:
            await log.append(OPS)
            times: list[float] = []
            end = time.perf_counter() + seconds

            async def writer() -> None:
                while (start := time.perf_counter()) < end:
                    await log.append(OPS, timeout=30.0)
                    times.append(time.perf_counter() - start)

            began = time.perf_counter()
            await asyncio.gather(*(writer() for _ in range(in_flight)))
            return len(times) / (time.perf_counter() - began), statistics.median(times) * 1e6

    async def _load_async(self, seconds: float, behind_sync: bool) -> float:
        async with self._log() as log:
            await log.append(OPS)
            times: list[float] = []
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                before = asyncio.create_task(log.append(OPS)) if behind_sync else None
                if before is not None:
                    await asyncio.sleep(0)  # so that the sync one is sent first
                start = time.perf_counter()
                await log.append(OPS, sync=False)
                times.append(time.perf_counter() - start)
                if before is not None:
                    await before
            return statistics.median(times) * 1e6

    def _log(self) -> QuorumLog:
        return QuorumLog(self._cluster.addresses("node"), self._cluster.plan.shard)


@contextmanager
def _cluster(folder: Path, nodes: int) -> Iterator[OurQuorum]:
    cluster = LocalCluster.create(folder, nodes=nodes, machine="log", failure_ms=2_000)
    try:
        cluster.start_all()
        asyncio.run(_until_it_answers(cluster))
        yield OurQuorum(cluster)
    finally:
        cluster.stop_all()


async def _until_it_answers(cluster: LocalCluster) -> None:
    deadline = time.monotonic() + READY_S
    async with Operators(cluster.addresses("operator")) as operators:
        while time.monotonic() < deadline:
            try:
                await operators.create(cluster.plan.shard, cluster.names("node"))
                break
            except PenstockError:
                await asyncio.sleep(0.1)
    async with QuorumLog(cluster.addresses("node"), cluster.plan.shard) as log:
        await log.append(OPS, timeout=READY_S)


def _etcd(recorder: RowRecorder, stack: ExitStack, folder: Path) -> Etcd | None:
    bars = ["sync64_vs_etcd", "p50_vs_etcd"]
    try:
        import grpc  # noqa: F401
    except ImportError:
        recorder.peer_missing("etcd", "its client needs grpcio: pip install penstock-lab", bars=bars)
        return None
    if etcd_binary() is None:
        recorder.peer_missing("etcd", "no etcd on the PATH (Debian: apt-get install etcd-server)", bars=bars)
        return None
    return stack.enter_context(etcd_cluster(folder))


def _tarantool(recorder: RowRecorder, stack: ExitStack, folder: Path) -> Tarantool | None:
    if tarantool_binary() is None:
        why = "no tarantool on the PATH (Debian: apt-get install tarantool)"
        recorder.peer_missing("tarantool", why, bars=["sync64_vs_tarantool"])
        return None
    return stack.enter_context(tarantool_cluster(folder))


@contextmanager
def _folder() -> Iterator[Path]:
    """Next to the work, not in /tmp, which is memory on many machines: fdatasync must reach a disk."""
    folder = Path(tempfile.mkdtemp(prefix=".bench-quorum-", dir=Path.cwd()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
