"""The benchmark of clients runs, and says which sides it had not."""

from pathlib import Path

import pytest

from penstock_lab.bench.message_clients import cases, run
from penstock_lab.bench.report import Options, RowRecorder


def test_it_measures_every_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cases, "KAFKA_PYTHON", tmp_path / "none")
    recorder = RowRecorder()
    run(recorder, Options(repeats=1, quick=True))
    assert sorted(recorder.missing) == ["before", "kafka"]
    assert not recorder.bars
    assert len(recorder.rows) == 2 * len(cases.CASES)
    assert all(row.value > 0 for row in recorder.rows)
