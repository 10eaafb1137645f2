"""What do commits, diffs and lookups of the lake cost, next to a bare Polars sort, hash and Parquet write?

Sides: `penstock` sorts the staged rows, cuts them into ranges, and makes those and the metarange durable in a folder.
`bare` is Polars alone on the same rows: sort by path, hash every row, one Parquet file, not synced. Changes come in
three shapes: *clustered* ones are neighbours (a partition written again), *new* ones come behind everything else (a new
partition), *scattered* ones are spread over the whole tree, so that they touch as many ranges as can be. The published
97 s of lakeFS are of half a million changes which touch 2.6 GB of ranges, so `commit_500k_seconds` is of *scattered*
ones: every range of the largest tree is written again. `commit_growth` and `diff_growth` are of clustered changes, from
the smallest tree to the largest, the median over several places, each time from a cold cache; scattered ones are shown
next to them. Peak memory is that of the whole process, the rows to commit included.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec
import polars as pl
import uvloop

from penstock.lake.core.committed.changes import newest, puts
from penstock.lake.core.committed.metarange import EMPTY_TREE, Location, TreeAddress, location_of
from penstock.lake.member.committed import Trees
from penstock.plumbing.objects import open_store
from penstock_lab.bench.lake_rows import appended, clustered, made_rows, scattered
from penstock_lab.bench.report import Options, RowRecorder, interleave

__all__ = ["QUESTION", "run"]

QUESTION: Final = "What do commits, diffs and lookups of the lake cost, next to a bare Polars sort, hash and write?"

COMMIT_VS_BARE_MAX: Final = 3.0
COMMIT_500K_SECONDS_MAX: Final = 9.7  # a tenth of the best published for lakeFS
GROWTH_MAX: Final = 2.0
HOT_ROWS: Final = 100_000  # the objects of repeated lookups


class Scale(msgspec.Struct, frozen=True):
    """How much is committed."""

    sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    many: int = 500_000  # changes on the largest tree
    few: int = 1_000
    places: int = 15  # where clustered changes are made, one after the other: ranges are of very different lengths
    lookups: int = 2_000


QUICK: Final = Scale(sizes=(500, 5_000), many=1_000, few=50, places=2, lookups=20)


def run(recorder: RowRecorder, options: Options) -> None:
    """Commit staged objects to trees of every size; then change, compare, merge and read them."""
    repeats = 1 if options.quick else max(3, options.repeats)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        bench = Bench(recorder, QUICK if options.quick else Scale(), repeats, Path(folder))
        bench.run()


class Bench:
    """One lake in a folder, with a tree of each size."""

    def __init__(self, recorder: RowRecorder, scale: Scale, repeats: int, folder: Path) -> None:
        self._recorder = recorder
        self._scale = scale
        self._repeats = repeats
        self._folder = folder
        self._trees: dict[int, TreeAddress] = {}
        self._others: dict[int, TreeAddress] = {}
        self._costs: dict[tuple[str, str], list[tuple[float, float]]] = {}
        self._attempts = 0

    def run(self) -> None:
        for size in self._scale.sizes:
            self._recorder.progress(f"making {size:,} rows")
            rows = self.commit(size, made_rows(size))
            self.change_few(size, rows)
            self.read(size, rows)
            if size == self._scale.sizes[-1]:
                self.change_many(size, rows)
        self.grow()

    def commit(self, size: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Measure staged objects to a first commit, and the bare job; the rows as that one has sorted them."""
        self._recorder.progress(f"commit of {size:,} staged objects")
        peak = Peak()
        cpu: dict[str, float] = {}
        ordered: list[pl.DataFrame] = []

        def ours() -> float:
            began = time.process_time()
            with peak:
                seconds = self._timed(lambda trees: self._keep(trees, size, rows))
            cpu["penstock"] = time.process_time() - began
            return seconds

        def bare() -> float:
            began, cpu_began = time.perf_counter(), time.process_time()
            in_order = rows.sort("path")
            in_order.hash_rows()
            in_order.write_parquet(self._folder / "bare.parquet")
            cpu["bare"] = time.process_time() - cpu_began
            seconds = time.perf_counter() - began
            ordered[:] = [in_order]
            return seconds

        seconds = interleave({"penstock": ours, "bare": bare}, 1 if size > 100_000 else self._repeats)
        for side, value in seconds.items():
            self._recorder.row("commit", side, value, "s", objects=size)
            self._recorder.row("commit, processor", side, cpu[side], "s", objects=size)
        self._recorder.row("commit", "penstock", size / seconds["penstock"], "objects/s", objects=size)
        self._recorder.row("commit, peak memory", "penstock", peak.megabytes, "MB", objects=size)
        if size == self._scale.sizes[-1]:
            ratio = seconds["penstock"] / seconds["bare"]
            self._recorder.bar("commit_10m_vs_bare", ratio, at_most=COMMIT_VS_BARE_MAX)
        return ordered[0]

    async def _keep(self, trees: Trees, size: int, rows: pl.DataFrame) -> None:
        self._trees[size] = await trees.build(EMPTY_TREE, newest(puts(rows)), self._location())

    def change_many(self, size: int, rows: pl.DataFrame) -> None:
        """Half a million changes on the largest tree: all over it, side by side, and new; their diff, and a merge."""
        count = self._scale.many
        made: dict[str, TreeAddress] = {}
        shapes = {"scattered": scattered, "clustered": clustered, "new": appended}
        for shape, choose in shapes.items():
            self._recorder.progress(f"{count:,} {shape} changes on {size:,} objects")
            changes = puts(choose(rows, count))

            async def commit(trees: Trees, shape: str = shape, changes: pl.DataFrame = changes) -> None:
                made[shape] = await trees.build(self._trees[size], changes, self._location())

            repeats = self._repeats if shape == "scattered" else 1
            seconds = self._figures("commit of many", commit, repeats, changes=count, objects=size, shape=shape)
            if shape == "scattered":
                self._recorder.bar("commit_500k_seconds", seconds, at_most=COMMIT_500K_SECONDS_MAX)
        self._compare_many(size, count, made)

    def _compare_many(self, size: int, count: int, made: dict[str, TreeAddress]) -> None:
        """Diff and merge of commits which differ in half a million places all over them."""
        base, source, dest = self._trees[size], made["scattered"], made["clustered"]

        async def diff(trees: Trees) -> None:
            found = sum([part.height async for part in trees.diff(base, source)])
            assert found == count, (found, count)

        async def merge(trees: Trees) -> None:
            assert (await trees.merge(base, dest, source, self._location())).tree is not None

        for what, work in {"diff of many": diff, "merge of many": merge}.items():
            self._recorder.progress(f"{what}: {count:,} scattered differences of two trees of {size:,} objects")
            self._figures(what, work, 1, changes=count, objects=size)

    def _figures(
        self, what: str, work: Callable[[Trees], Awaitable[object]], repeats: int, **params: int | str
    ) -> float:
        """Seconds of some work, the median of its runs, recorded with the processor time and the memory it took."""
        began = time.process_time()
        with Peak() as peak:
            seconds = statistics.median(self._timed(work) for _ in range(repeats))
        self._recorder.row(what, "penstock", seconds, "s", **params)
        self._recorder.row(f"{what}, processor", "penstock", (time.process_time() - began) / repeats, "s", **params)
        self._recorder.row(f"{what}, peak memory", "penstock", peak.megabytes, "MB", **params)
        return seconds

    def change_few(self, size: int, rows: pl.DataFrame) -> None:
        """A thousand changes: commit, diff and merge."""
        places = [(place + 0.5) / self._scale.places for place in range(self._scale.places)]
        few = self._scale.few
        cases = {
            "clustered": [puts(clustered(rows, few, place)) for place in places],
            "scattered": [puts(scattered(rows, few))] * (1 if size > 100_000 else self._repeats),
        }
        for kind, changes in cases.items():
            self._recorder.progress(f"{few:,} {kind} changes on {size:,} objects")
            with Peak() as peak:
                costs = [self._change(size, each) for each in changes]
            self._recorder.row(f"few changes, {kind}, peak memory", "penstock", peak.megabytes, "MB", objects=size)
            for what in costs[0]:
                seconds = statistics.median(cost[what] for cost in costs)
                self._recorder.row(f"{what}, {kind}", "penstock", seconds, "s", objects=size)
                self._costs.setdefault((what, kind), []).append((size, seconds))

    def _change(self, size: int, changes: pl.DataFrame) -> dict[str, float]:
        """Seconds for each operation, each from a cold cache."""
        before, other = self._trees[size], self._other(size)
        made: list[TreeAddress] = []

        async def commit(trees: Trees) -> None:
            made.append(await trees.build(before, changes, self._location()))

        async def diff(trees: Trees) -> None:
            found = sum([part.height async for part in trees.diff(before, made[0])])
            assert found == changes.height, (found, changes.height)

        async def merge(trees: Trees) -> None:
            outcome = await trees.merge(before, other, made[0], self._location())
            assert outcome.tree is not None

        return {"commit": self._timed(commit), "diff": self._timed(diff), "merge": self._timed(merge)}

    def _other(self, size: int) -> TreeAddress:
        """The same tree with one more object: a branch to merge into."""
        row = made_rows(1).with_columns(pl.lit("tables/other").alias("path"))

        async def commit(trees: Trees) -> None:
            self._others[size] = await trees.build(self._trees[size], puts(row), self._location())

        if size not in self._others:
            self._timed(commit)
        return self._others[size]

    def read(self, size: int, rows: pl.DataFrame) -> None:
        """Get and list in a part of the tree which fits into the cache: the first time, and again."""
        near = rows["path"].slice(size // 2, HOT_ROWS)
        tree, paths = self._trees[size], near.gather_every(max(1, len(near) // self._scale.lookups)).to_list()

        async def read(trees: Trees) -> None:
            parts = await trees.files.all_parts(await trees.files.open(tree))
            ranges = len({parts.find(path) for path in paths})
            seconds = await _each(lambda path: trees.get(tree, path), paths) * len(paths)
            self._recorder.row("get, cold", "penstock", seconds / ranges * 1e6, "us", objects=size)
            seconds = await _each(lambda path: trees.get(tree, path), paths)
            self._recorder.row("get, warm", "penstock", seconds * 1e6, "us", objects=size)
            seconds = await _each(lambda path: trees.list_page(tree, path[:-9], limit=100), paths[:100])
            self._recorder.row("list of 100, warm", "penstock", seconds * 1e6, "us", objects=size)

        async def list_folder(trees: Trees) -> None:
            began = time.perf_counter()
            page = await trees.list_page(tree, near[0].rpartition("/")[0] + "/", limit=1_000)
            assert page.entries.height > 0
            milliseconds = (time.perf_counter() - began) * 1e3
            self._recorder.row("list of 1,000 below a prefix, cold", "penstock", milliseconds, "ms", objects=size)

        with Peak() as peak:
            self._timed(read)
            self._timed(list_folder)
        self._recorder.row("get and list, peak memory", "penstock", peak.megabytes, "MB", objects=size)

    def grow(self) -> None:
        """Return how cost grows from the smallest to the largest tree."""
        for what in ("commit", "diff"):
            curve = self._costs[what, "clustered"]
            self._recorder.bar(f"{what}_growth", curve[-1][1] / curve[0][1], at_most=GROWTH_MAX)
            series = {kind: self._costs[what, kind] for kind in ("clustered", "scattered")}
            self._recorder.grows(f"{what} of 1,000 changes", "objects in the tree", "seconds", series)

    def _location(self) -> Location:
        self._attempts += 1
        return location_of(1, f"attempt-{self._attempts}")

    def _timed(self, work: Callable[[Trees], Awaitable[object]]) -> float:
        """Return the seconds of some work on the lake, opened again so that its cache is cold."""

        async def timed() -> float:
            async with open_store(f"file://{self._folder}/objects") as store, Trees(store) as trees:
                began = time.perf_counter()
                await work(trees)
                return time.perf_counter() - began

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(timed())


async def _each(call: Callable[[str], Awaitable[object]], paths: list[str]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    for path in paths:
        await call(path)
    return (time.perf_counter() - began) / len(paths)


class Peak:
    """The most memory the process had while the block ran, input included."""

    megabytes = 0.0

    def __enter__(self) -> "Peak":
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        return self

    def __exit__(self, *_: object) -> None:
        status = Path("/proc/self/status").read_text()
        self.megabytes = int(status.partition("VmHWM:")[2].split()[0]) / 1024
