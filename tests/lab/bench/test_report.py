import msgspec
import pytest

from penstock_lab.bench.report import Bar, BenchRow, Options, Report, RowRecorder, interleave


def report(*bars: Bar) -> Report:
    return Report("pond", {"cpu": "abacus", "cores": 2}, "abc", [], list(bars))


@pytest.mark.parametrize(
    ("value", "limits", "ok"),
    [
        (30.0, {"at_least": 30.0}, True),
        (29.999, {"at_least": 30.0}, False),
        (0.25, {"at_most": 0.25}, True),
        (0.2501, {"at_most": 0.25}, False),
        (float("nan"), {"at_least": 1.0}, False),
        (float("nan"), {"at_most": 1.0}, False),
    ],
)
def test_a_bar_holds_or_it_does_not(value: float, limits: dict[str, float], ok: bool) -> None:
    recorder = RowRecorder()
    recorder.bar("speed", value, **limits)
    assert recorder.bars[0].ok is ok


def test_a_bar_has_one_side() -> None:
    with pytest.raises(AssertionError, match="one side"):
        RowRecorder().bar("speed", 1.0)
    with pytest.raises(AssertionError, match="one side"):
        RowRecorder().bar("speed", 1.0, at_least=1, at_most=2)


def test_a_report_is_ok_if_every_bar_is() -> None:
    kept, missed = Bar("a", 1.0, True, at_least=1.0), Bar("b", 1.0, False, at_least=2.0)
    assert report(kept).ok
    assert not report(kept, missed).ok


def test_a_missing_peer_leaves_its_bars_unmeasured_and_unkept() -> None:
    recorder = RowRecorder()
    recorder.peer_missing("grpc", "grpcio is not installed", bars=["requests_vs_grpc"])
    assert recorder.missing == {"grpc": "grpcio is not installed"}
    assert recorder.bars == [Bar("requests_vs_grpc", None, False)]
    assert not report(*recorder.bars).ok


def test_rows_keep_their_parameters_and_progress_is_told() -> None:
    told: list[str] = []
    recorder = RowRecorder(told.append)
    recorder.progress("wading")
    recorder.row("depth", "penstock", 9.0, "m", stones=2)
    recorder.grows("depth", "day", "m", {"penstock": [(1.0, 9.0)]})
    assert told == ["wading"]
    assert recorder.rows == [BenchRow("depth", "penstock", 9.0, "m", {"stones": 2})]
    assert recorder.growth[0].series == {"penstock": [(1.0, 9.0)]}


def test_cases_run_interleaved_and_medians_count() -> None:
    order: list[str] = []
    figures = {"ours": iter([1.0, 100.0, 2.0]), "peer": iter([5.0, 6.0, 7.0])}

    def case(name: str) -> float:
        order.append(name)
        return next(figures[name])

    medians = interleave({"ours": lambda: case("ours"), "peer": lambda: case("peer")}, Options().repeats)
    assert order == ["ours", "peer"] * 3
    assert medians == {"ours": 2.0, "peer": 6.0}


def test_the_json_has_the_agreed_keys() -> None:
    encoded = msgspec.json.decode(msgspec.json.encode(report(Bar("a", 1.5, True, at_most=2.0))))
    assert set(encoded) == {"bench", "machine", "commit", "rows", "bars", "growth", "missing", "seconds"}
    assert encoded["bars"] == [{"name": "a", "value": 1.5, "ok": True, "at_most": 2.0}]
