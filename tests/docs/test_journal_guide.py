"""The guide to journals runs as it is printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 280


def shell(script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip


@pytest.mark.timeout(300)
def test_the_guide_to_journals_runs_as_printed(tmp_path: Path) -> None:
    guide = (ROOT / "docs/guides/journals.md").read_text(encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    ran = shell("\n".join(re.findall(r"```sh\n(.*?)```", guide, re.DOTALL)), tmp_path)
    if ran.returncode:
        shell("penstock cluster down", tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "first\nsecond\nthird\nfourth\n" in ran.stdout
    assert "shop/orders [6, 13) committed" in ran.stdout
    assert "is the primary of" in ran.stdout
