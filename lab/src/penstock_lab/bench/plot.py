"""A curve per side in plain characters, both axes logarithmic: for a terminal, a log file, a pull request.

Logarithmic because it shows growth: proportional cost is a straight line, twice as good is the same distance
everywhere. The sides have different marks, so that it can be read without colours.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

__all__ = ["draw"]

MARKS = "●○▲△■□"
DOT = "·"

Point = tuple[float, float]


def draw(series: Mapping[str, Sequence[Point]], *, columns: int = 60, rows: int = 14) -> str:
    """The curves, with ticks on both axes and a legend. Points at or below zero have no logarithm, and are left out.

    >>> print(draw({"ours": [(1, 10), (100, 1000)]}, columns=21, rows=5))
     1,000 ┤                  ··●
           │             ·····
       100 ┤        ·····
           │   ·····
        10 ┤●··
           └┬─────────┬─────────┬
            1        10       100
    ● ours
    """
    kept = {side: [point for point in points if min(point) > 0] for side, points in series.items()}
    xs = [x for points in kept.values() for x, _ in points]
    ys = [y for points in kept.values() for _, y in points]
    if not xs:
        return "(nothing to draw)"
    across, up = _Scale(min(xs), max(xs), columns), _Scale(min(ys), max(ys), rows)
    canvas = [[" "] * columns for _ in range(rows)]
    marks = dict(zip(kept, (MARKS[number % len(MARKS)] for number in range(len(kept))), strict=True))
    for points in kept.values():
        for column, row in _lines(points, across, up):
            canvas[row][column] = DOT
    for side, points in kept.items():
        for x, y in points:
            canvas[up.cell(y)][across.cell(x)] = marks[side]
    legend = "   ".join(f"{mark} {side}" for side, mark in marks.items())
    return "\n".join([*_with_axes(canvas, across, up), legend])


class _Scale:
    """Values to cells, on a logarithmic scale."""

    def __init__(self, low: float, high: float, cells: int) -> None:
        self.cells = cells
        self._low = math.log(low)
        self._span = math.log(high) - self._low or 1.0

    def cell(self, value: float) -> int:
        return round((math.log(value) - self._low) / self._span * (self.cells - 1))

    def label(self, cell: int) -> str:
        """The value of a cell. At the ends it is exact; in between a cell stands for many values: two digits do."""
        value = math.exp(self._low + self._span * cell / (self.cells - 1))
        if cell in (0, self.cells - 1):
            return number(float(f"{value:.12g}"))
        return number(float(f"{value:.2g}"))


def _lines(points: Sequence[Point], across: _Scale, up: _Scale) -> Iterator[tuple[int, int]]:
    """The cells between neighbouring points."""
    cells = sorted((across.cell(x), up.cell(y)) for x, y in points)
    for (column, row), (next_column, next_row) in pairwise(cells):
        for at in range(column, next_column):
            yield at, round(row + (next_row - row) * (at - column) / (next_column - column))


def _with_axes(canvas: Sequence[Sequence[str]], across: _Scale, up: _Scale) -> Iterator[str]:
    ticked = {0, up.cells // 2, up.cells - 1}
    labels = {row: up.label(row) for row in ticked}
    width = max(map(len, labels.values()))
    for row in reversed(range(up.cells)):
        line = "".join(canvas[row]).rstrip()
        yield f"{labels.get(row, ''):>{width + 1}} {'┤' if row in ticked else '│'}{line}"
    marks = (0, across.cells // 2, across.cells - 1)
    axis = "".join("┬" if cell in marks else "─" for cell in range(across.cells))
    yield f"{'':{width + 1}} └{axis}"
    first, middle, last = (across.label(cell) for cell in marks)
    names = f"{first:<{marks[1] - len(middle) + 1}}{middle}"
    yield f"{'':{width + 3}}{names}{last:>{across.cells - len(names)}}"


def number(value: float) -> str:
    """A figure as people read it: three digits that count, thousands apart.

    >>> number(298704.4), number(73.251), number(0.00123), number(2)
    ('298,704', '73.3', '0.00123', '2')
    """
    if not math.isfinite(value):
        return str(value)
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:.{digits}f}"
