"""Runs a benchmark by name and makes its report."""

import time
from collections.abc import Callable

from penstock_lab.bench.machine import describe_commit, describe_machine
from penstock_lab.bench.registry import find
from penstock_lab.bench.report import Options, Report, RowRecorder

__all__ = ["measure"]


def measure(name: str, options: Options, watch: Callable[[str], None] = lambda _: None) -> Report:
    """Run the benchmark, report its steps to `watch`, and return its figures."""
    benchmark = find(name)
    machine = describe_machine()  # before the run: the load it shows is not our own
    recorder = RowRecorder(watch)
    started = time.perf_counter()
    benchmark.run(recorder, options)
    return Report(
        bench=name,
        machine=machine,
        commit=describe_commit(),
        rows=recorder.rows,
        bars=recorder.bars,
        growth=recorder.growth,
        missing=recorder.missing,
        seconds=round(time.perf_counter() - started, 3),
    )
