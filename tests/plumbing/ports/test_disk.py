"""The disk port. `behaviours` holds what every disk must do: this machine's and the simulator's."""

from pathlib import Path

import pytest
from tests.plumbing.ports import disk_behaviours
from tests.plumbing.ports.disk_behaviours import *  # noqa: F403

from penstock.plumbing.ports.disk import FileSystem, LocalDisk

__all__ = disk_behaviours.__all__


@pytest.fixture
def disk() -> FileSystem:
    return LocalDisk()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path
