import pytest

from penstock_lab.bench import keyspace
from penstock_lab.bench.report import Options, RowRecorder


def test_everything_is_measured_and_a_missing_peer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyspace, "etcd_binary", lambda: None)  # etcd has its own tests, and takes its time to start
    recorder = RowRecorder()
    keyspace.run(recorder, Options(repeats=1, quick=True))
    rates = {(row.side, row.params["in_flight"]) for row in recorder.rows if row.what == "transactions"}
    assert rates == {("embedded", 1), ("embedded", 16), ("embedded", 64), ("bare sqlite", 1)}
    assert {row.what for row in recorder.rows} == {
        "transactions",
        "transaction p50",
        "watch after answer p50",
        "watch after answer p99",
        "idle cpu",
    }
    assert [bar.name for bar in recorder.bars] == ["watch_p50_ms", "idle_cpu_percent"]
    assert list(recorder.missing) == ["etcd, 1 member"]
