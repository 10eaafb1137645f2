"""How fast is an append that every replica has, next to NATS JetStream with three replicas in files?

Three broker processes, R = 3, acknowledged when all have it; JetStream when a majority has it. Neither waits for an
fsync. Both run on the same filesystem, and one is loaded at a time, in turns.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from penstock_lab.bench.journal_growth import grow_journals, grow_replicas
from penstock_lab.bench.journal_reads import compare_reads
from penstock_lab.bench.journal_sides import JournalWatch, Ours, bench_folder, cluster_of
from penstock_lab.bench.journal_stream import stream_one
from penstock_lab.bench.peers.nats import Nats, nats_binary, nats_cluster
from penstock_lab.bench.report import Options, RowRecorder, interleave

__all__ = ["QUESTION", "run"]

QUESTION = "How fast is an append that every replica has, next to NATS JetStream with three replicas?"

MB = 1e6
SMALL, MIDDLE, LARGE = 100, 10 << 10, 1 << 20
BARS = ("mbps_10k_vs_nats", "mbps_1m_vs_nats", "msgs_100b_vs_nats")
Load = Callable[
    [int, int, float], tuple[float, list[float]]
]  # size, in flight, seconds: per second, how long each took


def run(recorder: RowRecorder, options: Options) -> None:
    """Throughput by size, latency at one in flight, reads, one endless append; then growth."""
    seconds = 0.2 if options.quick else 2.0
    with bench_folder() as folder, ExitStack() as stack:
        recorder.progress("starting clusters")
        ours = stack.enter_context(cluster_of(folder / "brokers", 3))
        nats = nats_beside(recorder, stack, folder)
        _latency(recorder, options, seconds, ours, nats)  # before anybody has content to store in the background
        _compare(recorder, options, seconds, ours, nats)
        compare_reads(recorder, options, seconds, ours, nats)
        stream_one(recorder, options, ours, 1 << 30)
    grow_replicas(recorder, options, seconds)
    grow_journals(recorder, options)


def _compare(recorder: RowRecorder, options: Options, seconds: float, ours: Ours, nats: Nats | None) -> None:
    for what, size, in_flight, bar, at_least in (
        ("10 KiB appends, 64 in flight", MIDDLE, 64, BARS[0], 2.0),
        ("1 MiB appends, 4 in flight", LARGE, 4, BARS[1], 1.5),
        ("100-byte messages, 256 publishers", SMALL, 256, BARS[2], 2.0),
    ):
        recorder.progress(what)
        append = ours.serve if size == SMALL else ours.append
        sides = {"penstock": JournalSide(append, ours.pids, size, in_flight, seconds)}
        if nats is not None:
            sides["nats"] = JournalSide(nats.publish, nats.pids, size, in_flight, seconds)
        rates = interleave({name: side.rate for name, side in sides.items()}, options.repeats)
        for name, rate in rates.items():
            figure, unit = (rate, "messages/s") if size == SMALL else (rate * size / MB, "MB/s")
            recorder.row(what, name, figure, unit, bytes=size, in_flight=in_flight, replicas=3)
            recorder.row(f"{what}: processor time of each", name, sides[name].cpu_us, "us", bytes=size)
        if nats is not None:
            recorder.bar(bar, rates["penstock"] / rates["nats"], at_least=at_least)


class JournalSide:
    """One side under one load: how fast, and how much processor time of all its processes and of this one it took."""

    def __init__(self, load: Load, pids: list[int], size: int, in_flight: int, seconds: float) -> None:
        self._load = partial(load, size, in_flight, seconds)
        self._watch = JournalWatch([os.getpid(), *pids])
        self._cpu_s = 0.0
        self._count = 0

    def rate(self) -> float:
        """Appends per second."""
        before = self._watch.cpu_s()
        rate, times = self._load()
        self._cpu_s += self._watch.cpu_s() - before
        self._count += len(times)
        return rate

    @property
    def cpu_us(self) -> float:
        """The rates of one append, over all runs."""
        return self._cpu_s / self._count * 1e6


def _latency(recorder: RowRecorder, options: Options, seconds: float, ours: Ours, nats: Nats | None) -> None:
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


def nats_beside(recorder: RowRecorder, stack: ExitStack, folder: Path) -> Nats | None:
    if nats_binary() is None:
        why = "no nats-server on the PATH (Debian: apt-get install nats-server)"
        recorder.peer_missing("nats", why, bars=BARS)
        return None
    return stack.enter_context(nats_cluster(folder))
