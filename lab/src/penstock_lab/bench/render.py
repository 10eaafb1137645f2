"""A report for people: a table per thing measured, the bars with how far they are kept, and growth as a plot."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from penstock_lab.bench.plot import draw, number
from penstock_lab.bench.report import Bar, BenchRow, Growth, Report

__all__ = ["render"]

OURS = "penstock"
GIB = 1 << 30

Params = tuple[tuple[str, int | float | str], ...]


def render(report: Report, question: str, *, columns: int = 80) -> list[RenderableType]:
    """The parts of the report, in the order they are read."""
    parts: list[RenderableType] = [Text(question, "bold"), Text(_where(report), "dim"), ""]
    groups: dict[tuple[str, str], list[BenchRow]] = {}
    for row in report.rows:
        groups.setdefault((row.what, row.unit), []).append(row)
    for (what, unit), rows in groups.items():
        parts += [*_measured(what, unit, rows), ""]
    for growth in report.growth:
        parts += [*_growth(growth, columns), ""]
    parts += [Text.assemble((f"missing: {peer}", "bold yellow"), f": {why}") for peer, why in report.missing.items()]
    if report.bars:
        parts.append(_bars(report.bars))
    return [*parts, "", _verdict(report)]


def _where(report: Report) -> str:
    machine = report.machine
    memory = int(machine.get("memory_bytes", 0)) / GIB
    return (
        f"{machine.get('cpu')}, {machine.get('cores')} cores, {memory:.0f} GiB, {machine.get('filesystem')}, "
        f"{machine.get('kernel')}, {machine.get('python')}, load {machine.get('load')}; commit {report.commit}"
    )


def _measured(what: str, unit: str, rows: Sequence[BenchRow]) -> Iterator[RenderableType]:
    """Return a table: a line per set of parameters, a column per side, and the ratio to the peer."""
    sides = list(dict.fromkeys(row.side for row in rows))
    sides.sort(key=lambda side: side != OURS)  # ours first, the peers as they came
    cells: dict[Params, dict[str, float]] = {}
    for row in rows:
        cells.setdefault(tuple(row.params.items()), {})[row.side] = row.value
    names = list(dict.fromkeys(name for params in cells for name, _ in params))
    varying = [name for name in names if len({dict(params).get(name) for params in cells}) > 1]
    fixed = {name: value for name, value in next(iter(cells)) if name not in varying}
    peers = [side for side in sides if side != OURS] if OURS in sides else []

    table = _quiet_table()
    for name in varying:
        table.add_column(name, no_wrap=True)
    for side in sides:
        table.add_column(side, justify="right")
    for peer in peers:
        table.add_column(f"vs {peer}", justify="right", style="cyan")
    for params, values in cells.items():
        table.add_row(
            *(_param(dict(params).get(name, "")) for name in varying),
            *(number(values[side]) if side in values else "-" for side in sides),
            *(_ratio(values, peer) for peer in peers),
        )
    conditions = "".join(f", {name}={_param(value)}" for name, value in fixed.items())
    yield Text.assemble((what, "bold"), f" in {unit}{conditions}")
    yield table


def _ratio(values: dict[str, float], peer: str) -> str:
    if OURS not in values or not values.get(peer):
        return "-"
    return f"{number(values[OURS] / values[peer])}x"


def _param(value: int | float | str) -> str:
    return value if isinstance(value, str) else number(value)


def _growth(growth: Growth, columns: int) -> Iterator[RenderableType]:
    yield Text.assemble((growth.title, "bold"), f": {growth.y_label} by {growth.x_label}")
    table = _quiet_table()
    table.add_column(growth.x_label, justify="right")
    for side in growth.series:
        table.add_column(side, justify="right")
    for x in sorted({x for points in growth.series.values() for x, _ in points}):
        table.add_row(number(x), *(_at(points, x) for points in growth.series.values()))
    yield table
    # Characters, not markup, and never folded: a wrapped plot is noise.
    yield Text(draw(growth.series, columns=max(20, min(columns, 100) - 16)), no_wrap=True)


def _at(points: Sequence[tuple[float, float]], x: float) -> str:
    return next((number(y) for at, y in points if at == x), "-")


def _bars(bars: Sequence[Bar]) -> Table:
    table = _quiet_table()
    table.add_column("bar", no_wrap=True)
    table.add_column("value", justify="right")
    table.add_column("asked for")
    table.add_column("how far")
    for bar in bars:
        name = Text.assemble(("✓ ", "green") if bar.ok else ("✗ ", "bold red"), bar.name)
        value = "not measured" if bar.value is None else number(bar.value)
        table.add_row(name, value, _asked(bar), how_far(bar))
    return table


def _asked(bar: Bar) -> str:
    if bar.at_least is not None:
        return f"at least {number(bar.at_least)}"
    return "" if bar.at_most is None else f"at most {number(bar.at_most)}"


def how_far(bar: Bar) -> str:
    """Describe how far the value is from its limit, in words that need no thought about which side is good.

    >>> how_far(Bar("speed", 45.0, True, at_least=30.0)), how_far(Bar("latency", 0.5, False, at_most=0.25))
    ('kept by 50 %', 'missed by 100 %')
    """
    limit = bar.at_least if bar.at_least is not None else bar.at_most
    if bar.value is None or not limit:
        return "kept" if bar.ok else "missed"
    share = abs(bar.value - limit) / abs(limit)
    return f"{'kept' if bar.ok else 'missed'} by {share:.0%}".replace("%", " %")


def _verdict(report: Report) -> Text:
    kept = sum(bar.ok for bar in report.bars)
    words = f"{kept} of {len(report.bars)} bars kept" if report.bars else "no bars"
    return Text(f"{words}, {report.seconds:.1f} s", "green" if report.ok else "bold red")


def _quiet_table() -> Table:
    return Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", border_style="dim")
