"""The figures of the lake's state machine."""

from penstock_lab.bench.measure import measure
from penstock_lab.bench.report import Options


def test_every_figure_is_measured() -> None:
    report = measure("lake_staging", Options(repeats=1, quick=True))
    assert {row.what for row in report.rows} == {
        "single puts applied",
        "columnar rows put",
        "checkpoint dump",
        "checkpoint load",
        "get of a staged path",
        "list of 1,000 staged paths",
        "list of 1,000 behind tombstones",
    }
    assert all(row.value > 0 for row in report.rows)
    assert [growth.x_label for growth in report.growth] == ["sealed areas", "sealed areas", "tombstones"]
