"""Sweeping seeds over the cores of this machine: the simulator itself knows neither processes nor clocks."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for_any
from typing import Final

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock_lab.sim.run import SeedOutcome, run_seed
from penstock_lab.sim.workloads import find, workload_class

__all__ = ["Sweep", "parse_seeds", "sweep"]

CHUNK: Final = 10
FAILURES_KEPT: Final = 20
SEEDS_MAX: Final = 100_000_000


class Sweep(msgspec.Struct):
    """What a sweep has found so far."""

    workload: str
    mutant: str | None
    first: int
    end: int
    jobs: int
    done: int = 0
    seconds: float = 0.0
    steps: int = 0
    virtual_ms: int = 0
    failed: int = 0
    failures: list[SeedOutcome] = []
    probes: dict[str, int] = {}
    unreached: list[str] = []

    @property
    def seeds_per_second(self) -> float:
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def ok(self) -> bool:
        """A sweep is good if every seed is clean; one of a mutant, if some seed has caught it."""
        return self.failed > 0 if self.mutant else self.failed == 0


def parse_seeds(text: str) -> tuple[int, int]:
    """`A..B` is every seed from A up to, and not including, B; one number is that seed alone.

    >>> parse_seeds("0..2000"), parse_seeds("42")
    ((0, 2000), (42, 43))
    """
    first, dots, end = text.partition("..")
    try:
        numbers = (int(first), int(end) if dots else int(first) + 1)
    except ValueError:
        raise InvalidArgument(f"--seeds {text}: expected A..B, like 0..2000, or one seed") from None
    if not 0 <= numbers[0] < numbers[1] <= SEEDS_MAX:
        raise InvalidArgument(f"--seeds {text}: expected 0 <= A < B <= {SEEDS_MAX}")
    return numbers


def sweep(
    workload: str,
    first: int,
    end: int,
    *,
    mutant: str | None = None,
    jobs: int | None = None,
    watch: Callable[[Sweep], None] = lambda _: None,
) -> Sweep:
    """Run the seeds. A mutant's sweep ends when it is caught; a clean one continues, to show how much is broken."""
    find(workload, mutant=mutant)  # a wrong name is refused here, not in another process
    jobs = jobs or os.cpu_count() or 1
    found = Sweep(workload, mutant, first, end, jobs)
    probes: Counter[str] = Counter()
    started = time.monotonic()
    with _pool(jobs) as submit:
        waiting: set[Future[list[SeedOutcome]]] = set()
        chunks = iter(range(first, end, CHUNK))
        while True:
            while len(waiting) < 2 * jobs and (start := next(chunks, None)) is not None:
                waiting.add(submit(workload, mutant, start, min(start + CHUNK, end)))
            if not waiting:
                break
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                for outcome in future.result():
                    _count(found, outcome, probes)
            found.seconds = time.monotonic() - started
            watch(found)
            if mutant and found.failed:
                break
    found.probes = dict(sorted(probes.items()))
    found.unreached = [probe for probe in workload_class(workload).probes if probe not in probes]
    found.failures.sort(key=lambda outcome: outcome.seed)
    return found


def _count(found: Sweep, outcome: SeedOutcome, probes: Counter[str]) -> None:
    found.done += 1
    found.steps += outcome.steps
    found.virtual_ms += outcome.virtual_ms
    probes.update(outcome.probes)
    if outcome.failure is not None:
        found.failed += 1
        if len(found.failures) < FAILURES_KEPT:
            found.failures.append(outcome)


@contextmanager
def _pool(jobs: int) -> Iterator[Callable[[str, str | None, int, int], Future[list[SeedOutcome]]]]:
    # A forked child would inherit whatever threads and locks the caller has; a spawned one starts clean.
    executor = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        yield lambda *chunk: executor.submit(_run_chunk, *chunk)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for ever: it holds the far end of its own pipe."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait_for_any([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="ends with its parent", daemon=True).start()


def _run_chunk(workload: str, mutant: str | None, first: int, end: int) -> list[SeedOutcome]:
    make = find(workload, mutant=mutant)
    return [run_seed(make, seed) for seed in range(first, end)]
