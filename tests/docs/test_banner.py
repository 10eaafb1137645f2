"""The commands that `penstock up` prints run as printed, in an empty folder."""

from pathlib import Path

import pytest
from tests.cli.ups import UpProcess
from tests.docs.guides import shell
from tests.lake.rest.servers import KEY, SECRET


def test_every_command_of_the_banner_runs_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LAKE_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", SECRET)
    with UpProcess(tmp_path / "penstock-data") as server:
        _, _, tail = server.said.partition("Try it in another terminal, in this folder:\n")
        commands = [line.strip() for line in tail.splitlines() if line.startswith("  ")]
        assert len(commands) == 6
        ran = shell("\n".join(commands), tmp_path)
        assert ran.returncode == 0, ran.stderr
        assert '"text":"hello"' in ran.stdout.replace(" ", "")
        assert "warning" not in server.said
