"""What runs in a data folder: one process, found by others only while it lives."""

from pathlib import Path

import pytest

from penstock.kernel.errors import PreconditionFailed
from penstock.plumbing.process.running import RunningServer, hold, is_held, running_in

RUNNING = RunningServer(1, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "http://127.0.0.1:4")


def test_it_is_found_while_it_holds_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert not is_held(folder)
    with hold(folder) as place:
        assert is_held(folder)
        assert running_in(folder) is None  # it has not said where yet
        place.tell(RUNNING)
        assert running_in(folder) == RUNNING
        with pytest.raises(PreconditionFailed, match="another process runs"), hold(folder):
            pass
        assert running_in(folder) == RUNNING
    assert not is_held(folder)
    assert running_in(folder) is None


def test_what_a_killed_process_said_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "up.lock").touch()
    (tmp_path / "up.json").write_text('{"pid": 1}')
    assert running_in(tmp_path) is None
    with hold(tmp_path):
        assert running_in(tmp_path) is None
