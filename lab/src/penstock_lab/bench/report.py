"""What a benchmark says: rows that were measured, bars they must hold, and how cost grows.

A benchmark is a module of this package with a `QUESTION` and a `run(recorder, options)`. Ours and its peers run in the
same process tree, interleaved, and the median of at least three repeats counts: machines are noisy, ratios are not.
A peer that is not installed is reported as missing, never guessed.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence

import msgspec

__all__ = ["Bar", "BenchRow", "Growth", "Options", "Report", "RowRecorder", "interleave"]


class BenchRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One figure: its subject, its side, its unit and its parameters."""

    what: str
    side: str
    value: float
    unit: str
    params: dict[str, int | float | str] = {}


class Bar(msgspec.Struct, frozen=True, omit_defaults=True):
    """A promise: the value must reach one side of a limit. It holds or it does not; there is no "nearly".

    A bar that could not be measured, because its peer is missing, has no value, and does not hold.
    """

    name: str
    value: float | None
    ok: bool
    at_least: float | None = None
    at_most: float | None = None


class Growth(msgspec.Struct, frozen=True):
    """How one figure grows with the work: a curve per side."""

    title: str
    x_label: str
    y_label: str
    series: dict[str, list[tuple[float, float]]]


class Report(msgspec.Struct, frozen=True):
    """All of it: what `penstock bench NAME --output json` prints."""

    bench: str
    machine: dict[str, str | int]
    commit: str
    rows: list[BenchRow]
    bars: list[Bar]
    growth: list[Growth] = []
    missing: dict[str, str] = {}
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return all(bar.ok for bar in self.bars)


class Options(msgspec.Struct, frozen=True):
    """How long a benchmark may take. `quick` is for tests: it shows that everything runs, its figures mean little."""

    repeats: int = 3
    quick: bool = False
    before: str = ""  # a checkout of the tree before, with its own `make setup`, for benchmarks which compare with it


class RowRecorder:
    """Collects the figures of a running benchmark, and reports its progress."""

    def __init__(self, watch: Callable[[str], None] = lambda _: None) -> None:
        self.rows: list[BenchRow] = []
        self.bars: list[Bar] = []
        self.growth: list[Growth] = []
        self.missing: dict[str, str] = {}
        self._watch = watch

    def progress(self, doing: str) -> None:
        self._watch(doing)

    def row(self, what: str, side: str, value: float, unit: str, **params: int | float | str) -> None:
        self.rows.append(BenchRow(what, side, value, unit, params))

    def bar(self, name: str, value: float, *, at_least: float | None = None, at_most: float | None = None) -> None:
        assert (at_least is None) != (at_most is None), "a bar has one side"
        ok = value >= at_least if at_least is not None else at_most is not None and value <= at_most
        self.bars.append(Bar(name, value, ok, at_least, at_most))

    def grows(self, title: str, x_label: str, y_label: str, series: dict[str, list[tuple[float, float]]]) -> None:
        self.growth.append(Growth(title, x_label, y_label, series))

    def peer_missing(self, peer: str, why: str, *, bars: Sequence[str] = ()) -> None:
        """A peer that cannot run here, and the names of the bars which therefore cannot be measured."""
        self.missing[peer] = why
        self.bars.extend(Bar(name, None, ok=False) for name in bars)


def interleave(cases: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """Run every case once per round, so that a slow minute of the machine hits all of them; medians over the rounds."""
    samples: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(repeats):
        for name, case in cases.items():
            samples[name].append(case())
    return {name: statistics.median(values) for name, values in samples.items()}
