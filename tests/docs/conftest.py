"""What the tests of pages with commands share."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest


@pytest.fixture
def empty_folder(tmp_path: Path) -> Iterator[Path]:
    """Give a folder where commands may start a cluster and leave it running; it does not outlive the test."""
    yield tmp_path
    for plan in tmp_path.glob("*/cluster.json"):
        for pid in msgspec.json.decode(plan.read_bytes())["pids"].values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
