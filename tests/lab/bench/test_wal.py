from pathlib import Path

from penstock_lab.bench import wal
from penstock_lab.bench.report import Options, RowRecorder
from penstock_lab.bench.wal_bare import BareLoop


def test_everything_is_measured_on_every_side() -> None:
    recorder = RowRecorder()
    wal.run(recorder, Options(repeats=1, quick=True))
    appends = {(row.side, row.params["writers"]) for row in recorder.rows if row.what == "durable appends"}
    assert appends == {(side, writers) for side in ("penstock", "bare loop") for writers in (1, 16, 64, 256, 1024)}
    assert {row.what for row in recorder.rows} == {
        "fdatasync p50",
        "durable appends",
        "durable append p50",
        "durable append p99",
        "recovery",
        "catch-up read",
    }
    assert all(row.value > 0 for row in recorder.rows)
    assert [(bar.name, bar.at_least) for bar in recorder.bars] == [("wal_vs_bare_loop", 0.8)]
    assert len(recorder.growth) == 3


async def test_the_bare_loop_writes_what_it_is_given(tmp_path: Path) -> None:
    """A peer which cheats would be no peer."""
    bare = BareLoop(tmp_path / "bare", 4096)
    records = [b"%05d" % number for number in range(3000)]
    for waiter in [bare.append(record) for record in records]:
        await waiter
    await bare.append(b"the end")
    await bare.close()
    data = (tmp_path / "bare").read_bytes()
    assert data.rstrip(b"\0") == b"".join(records) + b"the end"
