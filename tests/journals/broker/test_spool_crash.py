"""A process is killed while it appends: every save that it printed exists, byte by byte, and the next process
continues.
"""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tests.journals.broker.spool_worker import JOURNAL, content_at

from penstock.journals.broker.spools.spool_files import Keeps, SpoolFiles
from penstock.plumbing.ports.ports import system_ports

WORKER = Path(__file__).with_name("spool_worker.py")


@pytest.mark.parametrize("keeps", [Keeps.UNTIL_REBOOT, Keeps.ALWAYS])
def test_kill_9_loses_nothing_that_was_saved(tmp_path: Path, keeps: Keeps) -> None:
    random = Random(5)
    before = 0
    for life in range(3):
        said = _run_and_kill(tmp_path, keeps, life, lines=random.randint(5, 60))
        assert said[0] >= before, "the new life starts with what the old one saved"
        before = said[-1]
        files, recovered = SpoolFiles.open(system_ports(), tmp_path, JOURNAL, keeps)
        assert recovered is not None
        points = recovered.state.points
        assert points[-1].end >= before
        for point in points:
            if not point.is_empty:
                file = files.at(point.begin)
                assert file is not None
                assert file.read(0, point.end - point.begin) == content_at(point.begin, point.end)
        for fragment in recovered.final:
            held = files.hold(fragment)
            assert held is not None
            assert held.read(0, fragment.length) == content_at(fragment.begin, fragment.end)
            held.release()
        files.close()


def _run_and_kill(folder: Path, keeps: Keeps, seed: int, *, lines: int) -> list[int]:
    """Return the worker's output before it was killed, at a moment of its own choosing."""
    command = [sys.executable, str(WORKER), str(folder), keeps.value, str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        said = [int(worker.stdout.readline()) for _ in range(lines)]
        worker.kill()
        rest = worker.stdout.read()
    return said + [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
