from penstock_lab.bench import allocator
from penstock_lab.bench.report import Options, RowRecorder


def test_every_case_is_measured_at_every_size() -> None:
    recorder = RowRecorder()
    allocator.run(recorder, Options(repeats=1, quick=True))
    assert {row.params["items"] for row in recorder.rows} == {50, 200}
    assert len(recorder.rows) == 2 * len({row.what for row in recorder.rows})
    assert all(row.value > 0 for row in recorder.rows if row.what == "through the embedded KeySpace")
    figures = {row.what: row.value for row in recorder.rows if row.params["items"] == 200}
    assert figures["fullest member over fair share"] < 1.2
    assert figures["moves for the member that joined, over its fair share"] <= 1.1
    assert [bar.name for bar in recorder.bars] == ["cold_s_per_item_growth"]
    assert [curve.title for curve in recorder.growth] == ["a cold start by items"]
