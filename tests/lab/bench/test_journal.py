"""The shape of the journal benchmark. Its figures mean nothing in a quick run on a machine which tests other things."""

from pathlib import Path

import pytest

from penstock_lab.bench import journal
from penstock_lab.bench.peers.nats import nats_binary
from penstock_lab.bench.report import Bar, Options, RowRecorder

NATS = {"nats"} if nats_binary() is not None else set()
LOADS = ("10 KiB appends, 64 in flight", "1 MiB appends, 4 in flight", "100-byte messages, 256 publishers")
BOTH = (
    *LOADS,
    *(f"{what}: processor time of each" for what in LOADS),
    "10 KiB, 1 in flight: p50",
    "10 KiB, 1 in flight: p99",
    "reads behind 10 KiB appends, 64 in flight",
    "reads from the start",
)
OURS = (
    "one append, streamed",
    "one append, streamed: memory of the largest broker before",
    "one append, streamed: memory of the largest broker at its peak",
    "10 KiB appends, 64 in flight, by replicas",
    "idle journals on one broker: until all are served",
    "idle journals on one broker: memory",
    "idle journals on one broker: processor time",
    "10 KiB, 1 in flight, beside idle journals: p50",
)
MAY_BE_0 = ("idle journals on one broker: until all are served", "idle journals on one broker: processor time")


@pytest.mark.timeout(300)  # eleven processes are started one after the other
def test_everything_is_measured_on_every_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recorder = RowRecorder()
    journal.run(recorder, Options(repeats=1, quick=True))
    rows = {(row.what, row.side) for row in recorder.rows}
    expected = {(what, side) for what in BOTH for side in {"penstock", *NATS}}
    expected |= {(what, "penstock") for what in OURS}
    expected |= {("reads from the start", f"penstock, {how}") for how in ("by the client itself", "out of Spools")}
    assert rows == expected
    assert all(row.value > 0 for row in recorder.rows if row.what not in MAY_BE_0)
    named = {bar.name: (bar.at_least, bar.at_most) for bar in recorder.bars}
    bars = {"mbps_10k_vs_nats": (2.0, None), "mbps_1m_vs_nats": (1.5, None), "msgs_100b_vs_nats": (2.0, None)}
    assert named == {**(bars if NATS else dict.fromkeys(bars, (None, None))), "stream_memory_growth_mb": (None, 64.0)}
    assert [bar for bar in recorder.bars if bar.name == "stream_memory_growth_mb" and not bar.ok] == []
    counts = [row.params["journals"] for row in recorder.rows if row.what == OURS[4]]
    assert counts == [1, 10]
    assert set(recorder.missing) == ({"nats"} - NATS)
    assert list(tmp_path.iterdir()) == []


def test_without_nats_that_is_said_and_its_bars_are_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "nats_binary", lambda: None)
    recorder = RowRecorder()
    assert journal.nats_beside(recorder, None, Path()) is None  # type: ignore[arg-type]
    assert list(recorder.missing) == ["nats"]
    assert recorder.bars == [Bar(name, None, ok=False) for name in journal.BARS]
