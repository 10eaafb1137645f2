"""The lake's guide: its commands run as printed, in order, against a real server."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.ups import UpProcess
from tests.lake.rest.servers import KEY, SECRET

from penstock.cli.main import run

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "lake.md"
FENCED = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = [line for block in FENCED.findall(PAGE.read_text()) for line in block.splitlines()]
    return [line.partition("  #")[0].strip() for line in lines]


def test_every_command_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    found = commands()
    assert found[0] == "penstock up"
    assert len(found) > 20
    monkeypatch.chdir(tmp_path)
    with UpProcess(tmp_path / "penstock-data") as server:
        url = server.running.lake
        monkeypatch.setenv("PENSTOCK_LAKE_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", SECRET)
        for command in found[1:]:
            program, *arguments = shlex.split(command)
            if program == "penstock":
                assert run(arguments) == 0, command
            else:
                subprocess.run(command, shell=True, check=True, timeout=30)
        blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        mine = 'host="http://127.0.0.1:8000", username="…", password="…"'
        assert mine in blocks[-1]
        script = "\n".join(blocks).replace(mine, f'host="{url}", username="{KEY}", password="{SECRET}"')
        subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
        assert run(["lake", "cat", "lake://shop@main/2026/prices.csv"]) == 0
    assert capfd.readouterr().out.endswith("kettle,36.90\n")
