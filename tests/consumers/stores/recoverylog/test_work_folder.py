"""Work folders: what dead processes left goes, what living ones use stays."""

import os
import subprocess
import sys
from pathlib import Path

from penstock.consumers.stores.recoverylog.work_folder import WorkFolder

LEAVE = """
import os, sys
from pathlib import Path
from penstock.consumers.stores.recoverylog.work_folder import WorkFolder
folder = WorkFolder(Path(sys.argv[1]), "recovery/shard")
(folder.path / "file").write_bytes(b"left")
os.kill(os.getpid(), 9)
"""


def test_a_folder_of_ones_own_is_made_and_removed(tmp_path: Path) -> None:
    one, other = (WorkFolder(tmp_path, "recovery/shard") for _ in range(2))
    assert one.path.is_dir()
    assert one.path != other.path
    assert {path.parent for path in (one.path, other.path)} == {tmp_path}
    for folder in (one, other, one):
        folder.remove()
    assert os.listdir(tmp_path) == []


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", LEAVE, str(tmp_path)], check=False)
    left = os.listdir(tmp_path)
    assert len(left) == 2
    folder = WorkFolder(tmp_path, "recovery/shard")
    assert not set(left) & set(os.listdir(tmp_path))
    folder.remove()
