"""The shape of the wire benchmark. Its figures mean nothing in a quick run on a machine which tests other things."""

import pytest

from penstock_lab.bench import wire, wire_sides
from penstock_lab.bench.report import Options, RowRecorder

PEERS = ("penstock", "grpcio.aio")
BARS = {
    "requests_vs_grpc": (30, None),
    "p50_vs_grpc": (None, 0.25),
    "bulk_vs_grpc": (3, None),
    "bulk_vs_socket": (0.5, None),
}


def test_everything_is_measured_on_every_side() -> None:
    recorder = RowRecorder()
    wire.run(recorder, Options(quick=True))
    rows = {(row.what, row.side, row.params.get("in_flight")) for row in recorder.rows}
    expected: set[tuple[str, str, object]] = {
        ("unary requests", peer, count) for peer in PEERS for count in (1, 16, 64, 256, 1024)
    }
    expected |= {("unary latency p50", peer, 1) for peer in PEERS}
    expected |= {("messages on one stream", peer, 256) for peer in PEERS}
    expected |= {("bulk, one way", side, None) for side in (*PEERS, "socket")}
    assert rows - {("unary requests which failed", "grpcio.aio", None)} == expected
    assert all(row.value > 0 for row in recorder.rows)
    assert {bar.name: (bar.at_least, bar.at_most) for bar in recorder.bars} == BARS
    [growth] = recorder.growth
    assert {side: [x for x, _ in curve] for side, curve in growth.series.items()} == {
        peer: [1, 16, 64, 256, 1024] for peer in PEERS
    }
    assert recorder.missing == {}


def test_without_grpcio_that_is_said_and_its_bars_are_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_sides, "grpc_missing", lambda: "grpcio is not installed")
    recorder = RowRecorder()
    wire.run(recorder, Options(quick=True))
    assert recorder.missing == {"grpcio.aio": "grpcio is not installed"}
    assert {row.side for row in recorder.rows} == {"penstock", "socket"}
    assert [bar.name for bar in recorder.bars] == ["bulk_vs_socket"]
