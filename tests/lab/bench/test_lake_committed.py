from penstock_lab.bench import lake_committed
from penstock_lab.bench.report import Options, RowRecorder


def test_every_figure_is_measured() -> None:
    recorder = RowRecorder()

    lake_committed.run(recorder, Options(repeats=1, quick=True))

    assert {bar.name for bar in recorder.bars} == {
        "commit_10m_vs_bare",
        "commit_500k_seconds",
        "commit_growth",
        "diff_growth",
    }
    assert {(row.what, row.side) for row in recorder.rows if row.params.get("objects") == 500} >= {
        ("commit", "penstock"),
        ("commit", "bare"),
        ("commit, clustered", "penstock"),
        ("diff, scattered", "penstock"),
        ("merge, clustered", "penstock"),
        ("get, warm", "penstock"),
        ("list of 100, warm", "penstock"),
        ("list of 1,000 below a prefix, cold", "penstock"),
        ("few changes, clustered, peak memory", "penstock"),
    }
    many = [row.params["shape"] for row in recorder.rows if row.what == "commit of many"]
    assert many == ["scattered", "clustered", "new"]
    assert {"diff of many, peak memory", "merge of many, processor"} <= {row.what for row in recorder.rows}
    assert all(row.value > 0 for row in recorder.rows)
    assert [growth.title for growth in recorder.growth] == ["commit of 1,000 changes", "diff of 1,000 changes"]
