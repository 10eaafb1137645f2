"""How the cost of journals grows: with replicas, and with the number of idle journals.

An idle journal costs memory and, if anything of it ticks, processor time; both are measured on one broker from outside.
"""

import asyncio
import statistics
import time
from typing import Final

from penstock.journals.client.journal import Change
from penstock.journals.records.spec import JournalSpec
from penstock_lab.bench.journal_sides import JournalWatch, Ours, bench_folder, cluster_of
from penstock_lab.bench.report import Options, RowRecorder

__all__ = ["grow_journals", "grow_replicas"]

MB: Final = 1e6
SIZE, IN_FLIGHT = 10 << 10, 64
APPLY_MAX: Final = 100  # specs of one transaction


def grow_replicas(recorder: RowRecorder, options: Options, seconds: float) -> None:
    """Appends by the number of replicas, each in its own process."""
    curve: list[tuple[float, float]] = []
    for replicas in (1,) if options.quick else (1, 3, 5):
        recorder.progress(f"{replicas} replicas")
        with bench_folder() as folder, cluster_of(folder / "brokers", replicas) as ours:
            rate = statistics.median(ours.append(SIZE, IN_FLIGHT, seconds)[0] for _ in range(options.repeats))
        recorder.row(
            "10 KiB appends, 64 in flight, by replicas", "penstock", rate * SIZE / MB, "MB/s", replicas=replicas
        )
        curve.append((replicas, rate * SIZE / MB))
    recorder.grows("10 KiB appends, 64 in flight", "replicas", "MB/s", {"penstock": curve})


def grow_journals(recorder: RowRecorder, options: Options) -> None:
    """Idle journals on one broker: how long until all are served, and their cost from then on."""
    counts = (1, 10) if options.quick else (1, 10, 1_000, 10_000)
    what = "idle journals on one broker"
    memory: list[tuple[float, float]] = []
    processor: list[tuple[float, float]] = []
    with bench_folder() as folder, cluster_of(folder / "brokers", 1) as ours:
        watch, made = JournalWatch(ours.pids), 1
        for count in counts:
            recorder.progress(f"{count} journals")
            began = time.perf_counter()
            asyncio.run(_make(ours, made, count))
            took_s, made = time.perf_counter() - began, count
            memory.append((count, watch.memory_bytes()[0] / MB))
            processor.append((count, _idle_cpu(watch, options) * 1e3))
            recorder.row(f"{what}: until all are served", "penstock", took_s, "s", journals=count)
            recorder.row(f"{what}: memory", "penstock", memory[-1][1], "MB", journals=count)
            recorder.row(f"{what}: processor time", "penstock", processor[-1][1], "ms/s", journals=count)
        recorder.progress("an append to one of many")
        _, times = ours.append(SIZE, 1, 0.3 if options.quick else 3.0)
        p50 = statistics.median(times) * 1e6
        recorder.row("10 KiB, 1 in flight, beside idle journals: p50", "penstock", p50, "us", journals=made)
    recorder.grows(what, "journals", "MB, ms/s", {"memory": memory, "processor time": processor})


def _idle_cpu(watch: JournalWatch, options: Options) -> float:
    """Processor seconds per second."""
    before, began = watch.cpu_s(), time.perf_counter()
    time.sleep(0.2 if options.quick else 5.0)
    return (watch.cpu_s() - before) / (time.perf_counter() - began)


async def _make(ours: Ours, made: int, count: int) -> None:
    """Have this number of journals, the existing ones included, and wait until each has its epoch."""
    async with ours.journals() as journals:
        specs = [JournalSpec(name=f"idle/{number:06d}", replication=1) for number in range(made, count)]
        for first in range(0, len(specs), APPLY_MAX):
            await journals.apply([Change(upsert=spec) for spec in specs[first : first + APPLY_MAX]], timeout=60.0)
        while True:
            listed = await journals.list(timeout=60.0)
            if len(listed) == count and all(each.epoch is not None for each in listed):
                return
            await asyncio.sleep(count / 10_000)  # a listing costs the broker something
