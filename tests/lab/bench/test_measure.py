from pathlib import Path

from penstock_lab.bench.measure import measure
from penstock_lab.bench.report import Bar, BenchRow, Options


def test_a_benchmark_becomes_a_report(pond: Path) -> None:
    told: list[str] = []
    report = measure("pond", Options(), told.append)
    assert told == ["wading"]
    assert report.bench == "pond"
    assert report.rows == [
        BenchRow("depth", "penstock", 9.0, "m", {"stones": 2}),
        BenchRow("depth", "puddle", 3.0, "m", {"stones": 2}),
    ]
    assert report.bars == [Bar("depth_vs_puddle", 3.0, True, at_least=2.0)]
    assert report.commit
    assert report.seconds >= 0
    assert report.machine["cores"]
