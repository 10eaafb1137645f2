"""Runs the commands of a page as a person would: in a shell, in an empty folder."""

import os
import subprocess
import sys
from pathlib import Path

SECONDS_MAX = 250


def shell(script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
