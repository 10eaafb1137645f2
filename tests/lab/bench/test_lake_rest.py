"""The benchmark of the lake's REST API runs, and measures what its bars are about."""

from penstock_lab.bench import lake_rest
from penstock_lab.bench.report import Options, RowRecorder


def test_it_runs_on_real_processes() -> None:
    recorder = RowRecorder()
    lake_rest.run(recorder, Options(repeats=1, quick=True))
    assert {bar.name for bar in recorder.bars} == {"reads_per_core", "writes_per_core"}
    assert {row.params["in_flight"] for row in recorder.rows} == {1, 64, 256}
    assert all(row.value > 0 for row in recorder.rows)
