"""Runs `penstock` in this process, and compares text with files under `golden/`.

GOLDEN=rewrite writes the files instead of comparing them (`make golden`): read the diff before you commit it.
"""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from tests.cli.failures import check_failure
from tests.cli.terminal import Golden, Outcome, Penstock
from tests.lab.bench.pond import benchmarks_in

from penstock.cli.main import run

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def penstock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Penstock]:
    """`penstock("config", "show")` in an empty folder, on 80 columns, without colours and without our environment."""
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    before = structlog.get_config() if structlog.is_configured() else None
    root = logging.getLogger()
    handlers, level = root.handlers, root.level

    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        status = run(arguments)
        captured = capsys.readouterr()
        check_failure(captured.err)
        return Outcome(status, captured.out, captured.err)

    yield call
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)
    root.handlers = handlers
    root.setLevel(level)


@pytest.fixture
def pond(tmp_path: Path) -> Iterator[Path]:
    with benchmarks_in(tmp_path / "benches") as folder:
        yield folder


@pytest.fixture
def golden() -> Golden:
    def compare(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if os.environ.get("GOLDEN") == "rewrite":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing: make golden"
        assert text == path.read_text(encoding="utf-8"), f"{path} differs: make golden, then read the diff"

    return compare
