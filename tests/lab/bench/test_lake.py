"""One run has all of the lake's figures. The part with real processes has a test of its own, and is left out here."""

from penstock_lab.bench import lake, lake_committed, lake_rest, lake_staging
from penstock_lab.bench.report import Options, RowRecorder


def test_all_parts_are_in_it() -> None:
    assert set(lake.PARTS) == {lake_rest, lake_staging, lake_committed}


def test_the_figures_of_its_parts_are_in_one_report_and_it_says_how_far_it_is() -> None:
    said: list[str] = []
    recorder = RowRecorder(said.append)

    lake.run(recorder, Options(repeats=1, quick=True), parts=(lake_staging, lake_committed))

    assert {bar.name for bar in recorder.bars} >= {"commit_500k_seconds", "commit_growth", "diff_growth"}
    assert {row.what for row in recorder.rows} >= {"columnar rows put", "diff of many", "merge of many"}
    assert [line for line in said if line.startswith("part ")] == [
        f"part 1 of 2: {lake_staging.QUESTION}",
        f"part 2 of 2: {lake_committed.QUESTION}",
    ]
