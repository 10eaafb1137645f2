import signal
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from tests.cli.terminal import Golden, Penstock, transcript

from penstock_lab.bench import measure
from penstock_lab.bench.report import Report
from penstock_lab.commands import bench

pytestmark = pytest.mark.usefixtures("pond")


@pytest.fixture(autouse=True)
def _one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The golden files must not depend on where and how slowly they were made."""
    still = SimpleNamespace(perf_counter=lambda: 0.0, monotonic=lambda: 0.0)
    monkeypatch.setattr(measure, "time", still)
    monkeypatch.setattr(bench, "time", still)
    machine = {
        "cpu": "Abacus 9000",
        "cores": 2,
        "memory_bytes": 24 << 30,
        "kernel": "Linux 6.1",
        "python": "CPython 3.11.7",
    }
    monkeypatch.setattr(measure, "describe_machine", lambda: {**machine, "filesystem": "ext4", "load": "0.3"})
    monkeypatch.setattr(measure, "describe_commit", lambda: "abc123")


def test_list_shows_questions(penstock: Penstock) -> None:
    listed = msgspec.json.decode(penstock("bench", "list", "--output", "json").stdout)
    assert {"bench": "pond", "question": "How deep is a pond, next to a puddle?"} in listed
    assert "puddle How wet is a puddle, next to a puddle?" in " ".join(penstock("bench", "list").stdout.split())


def test_without_a_name_they_are_listed(penstock: Penstock) -> None:
    assert penstock("bench") == penstock("bench", "list")


def test_kept_bars_exit_0_and_missed_ones_1(penstock: Penstock, golden: Golden) -> None:
    golden("bench", transcript(penstock, ["bench pond", "bench puddle --quick"]))


@pytest.mark.parametrize(("name", "status"), [("pond", 0), ("puddle", 1)])
def test_json_is_exactly_one_object_on_stdout(penstock: Penstock, name: str, status: int) -> None:
    outcome = penstock("bench", name, "--output", "json")
    assert outcome.status == status
    decoded = msgspec.json.decode(outcome.stdout)
    assert {"bench", "machine", "commit", "rows", "bars"} <= set(decoded)
    (bar,) = decoded["bars"]
    assert bar["ok"] is (status == 0)
    assert outcome.stderr == f"bench {name}: wading (0 s)\n"


def test_the_report_can_be_kept(penstock: Penstock) -> None:
    outcome = penstock("bench", "pond", "--output-file", "kept.json")
    kept = msgspec.json.decode(Path("kept.json").read_bytes(), type=Report)
    assert kept.ok
    assert "kept in kept.json" in outcome.stderr
    assert "depth_vs_puddle" in outcome.stdout


def test_a_report_that_cannot_be_kept_is_refused_before_an_hour_is_spent(penstock: Penstock) -> None:
    outcome = penstock("bench", "pond", "--output-file", "no/such/folder/kept.json")
    assert outcome.status == 2
    assert "no/such/folder/kept.json" in outcome.stderr
    assert "wading" not in outcome.stderr


def test_sigterm_ends_a_benchmark_so_that_it_ends_what_it_started() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit), bench._ended_by_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
