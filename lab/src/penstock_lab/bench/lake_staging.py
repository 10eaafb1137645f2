"""The cost of the lake's state machine: records applied, columnar puts, gets and lists over staged entries,
checkpoints.

Nothing here goes over a wire or to a disk, so the figures bound what a member can do.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Final

import numpy as np
import polars as pl

from penstock.lake.core.staging.areas.entry_columns import SCHEMA, batch_to_bytes
from penstock.lake.core.staging.areas.folding import fold
from penstock.lake.core.staging.checkpoint import dump, load
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import (
    Announce,
    CommitId,
    CreateRepository,
    Instance,
    Put,
    Record,
    Request,
    Row,
    StagingToken,
)
from penstock.lake.core.staging.snapshot import Snapshot
from penstock_lab.bench.report import Options, RowRecorder, interleave

__all__ = ["QUESTION", "run"]

QUESTION: Final = "What does the lake's state machine cost: puts, reads over what is staged, checkpoints?"

OURS: Final = "staging"
MAIN: Final = Instance("b1")
STAMP_NS: Final = 10**18
PAGE_ROWS: Final = 1_000


def run(recorder: RowRecorder, options: Options) -> None:
    """Every figure, as rows of the recorder."""
    _records(recorder, options)
    _columns(recorder, options)
    _areas(recorder, options)
    _tombstones(recorder, options)


class _Lake:
    """A machine with one branch, which is given records."""

    def __init__(self) -> None:
        self.machine = StagingMachine()
        self._ids = (f"request{number:010d}" for number in count())
        first = Request("first", 0)
        token = StagingToken("t0")
        self.apply(CreateRepository(first, "repo", Instance("r1"), "mem://", "main", MAIN, token, CommitId("c0")))

    def request(self) -> Request:
        return Request(next(self._ids), 1)

    def apply(self, record: Record) -> None:
        self.machine.apply(self.machine.applied + 1, STAMP_NS, record)

    def put(self, batch: bytes) -> None:
        self.apply(Put(self.request(), MAIN, 1, batch=batch))

    def put_all(self, batches: Sequence[bytes]) -> None:
        for batch in batches:
            self.put(batch)

    def snapshot(self) -> Snapshot:
        snapshot = self.machine.capture(MAIN)
        assert snapshot is not None
        return snapshot


class _NoTree:
    """Nothing is committed: the benchmark measures staged entries."""

    def get(self, path: str) -> Entry | None:
        return None


def _rows(first: int, rows: int, *, prefix: str = "data/", is_live: bool = True, shuffled: bool = False) -> bytes:
    """A columnar batch: paths of 30 characters, addresses of 60."""
    numbers = np.arange(first, first + rows)
    if shuffled:
        numbers = np.random.default_rng(1).permutation(numbers)
    number, digits = pl.col("number"), pl.col("number").cast(pl.String)
    frame = pl.DataFrame({"number": numbers}).select(
        path=pl.format(f"{prefix}part-{{}}.parquet", digits.str.zfill(12)),
        is_live=pl.lit(is_live),
        address=pl.format("s3://bucket/prefix/data/{}", digits.str.zfill(32)),
        size=number,
        etag=digits.str.zfill(32),
        mtime_ns=number,
        content_type=pl.lit("application/octet-stream"),
        metadata=pl.lit(""),
    )
    (batch,) = frame.rechunk().to_arrow().cast(SCHEMA).to_batches()
    return batch_to_bytes(batch)


def _seconds(do: Callable[[], object]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def _gets(snapshot: Snapshot, path: str) -> float:
    return _seconds(lambda: [snapshot.get(path, _NoTree()) for _ in range(PAGE_ROWS)])


def _list(snapshot: Snapshot) -> float:
    start = time.perf_counter()
    listed = fold(snapshot.overlay, "data/", "", "", PAGE_ROWS)
    seconds = time.perf_counter() - start
    assert len(listed) >= min(PAGE_ROWS, 300)
    return seconds


def _records(recorder: RowRecorder, options: Options) -> None:
    """PUTs of one row each."""
    recorder.progress("single puts")
    records = 500 if options.quick else 30_000

    def puts() -> float:
        lake = _Lake()
        made = [
            Put(lake.request(), MAIN, 1, (Row(f"data/part-{number:012d}.parquet", Entry(f"s3://b/{number:032d}", 1)),))
            for number in range(records)
        ]

        def apply_all() -> None:
            for put in made:
                lake.apply(put)

        return records / _seconds(apply_all)

    rates = interleave({OURS: puts}, options.repeats)
    recorder.row("single puts applied", OURS, round(rates[OURS]), "/s", records=records)


def _columns(recorder: RowRecorder, options: Options) -> None:
    """PUTs of many rows each, and a checkpoint of them."""
    recorder.progress("columnar puts")
    rows, puts = (1_000, 2) if options.quick else (100_000, 10)
    for order in ("sorted", "shuffled"):
        batches = [_rows(number * rows, rows, shuffled=order == "shuffled") for number in range(puts)]

        def put_all(batches: list[bytes] = batches) -> float:
            lake = _Lake()
            return rows * puts / _seconds(lambda: lake.put_all(batches))

        rate = interleave({OURS: put_all}, options.repeats)[OURS]
        recorder.row("columnar rows put", OURS, round(rate), "/s", rows=rows, puts=puts, order=order)
    lake = _Lake()
    for number in range(puts):
        lake.put(_rows(number * rows, rows))
    saved = dump(lake.machine)
    cases = {
        "dump": lambda: rows * puts / _seconds(lambda: dump(lake.machine)),
        "load": lambda: rows * puts / _seconds(lambda: load(saved, StagingMachine)),
    }
    for what, rate in interleave(cases, options.repeats).items():
        recorder.row(f"checkpoint {what}", OURS, round(rate), "rows/s", rows=rows * puts, bytes=len(saved))


def _areas(recorder: RowRecorder, options: Options) -> None:
    """Get and list by the number of sealed areas: neither may slow with them."""
    rows = 300 if options.quick else 3_000
    gets: list[tuple[float, float]] = []
    lists: list[tuple[float, float]] = []
    for areas in (1, 10) if options.quick else (1, 10, 100):
        recorder.progress(f"reads over {areas} sealed areas")
        lake = _Lake()
        for number in range(areas):
            lake.put(_rows(number * rows, rows))
            token = StagingToken(f"t{number + 1}")
            lake.apply(Announce(lake.request(), MAIN, 0, token, 10**9))
        snapshot = lake.snapshot()
        path = f"data/part-{areas * rows // 2:012d}.parquet"
        times = interleave({"get": partial(_gets, snapshot, path), "list": partial(_list, snapshot)}, options.repeats)
        gets.append((areas, times["get"] / PAGE_ROWS * 1e6))
        lists.append((areas, times["list"] * 1e3))
        recorder.row("get of a staged path", OURS, round(gets[-1][1], 2), "us", areas=areas)
        recorder.row("list of 1,000 staged paths", OURS, round(lists[-1][1], 2), "ms", areas=areas)
    recorder.grows("get of a staged path", "sealed areas", "us", {OURS: gets})
    recorder.grows("list of 1,000 staged paths", "sealed areas", "ms", {OURS: lists})


def _tombstones(recorder: RowRecorder, options: Options) -> None:
    """A list of 1,000 entries behind many tombstones of the same prefix."""
    curve: list[tuple[float, float]] = []
    for tombstones in (0, 1_000) if options.quick else (0, 10_000, 100_000, 1_000_000):
        recorder.progress(f"a list over {tombstones} tombstones")
        lake = _Lake()
        for first in range(0, tombstones, 100_000):
            rows = min(100_000, tombstones - first)
            lake.put(_rows(first, rows))
            lake.put(_rows(first, rows, is_live=False))
        lake.put(_rows(tombstones, PAGE_ROWS))
        snapshot = lake.snapshot()
        seconds = interleave({OURS: partial(_list, snapshot)}, options.repeats)[OURS]
        curve.append((tombstones, seconds * 1e3))
        recorder.row("list of 1,000 behind tombstones", OURS, round(seconds * 1e3, 2), "ms", tombstones=tombstones)
    recorder.grows("list of 1,000 behind tombstones", "tombstones", "ms", {OURS: curve})
