"""Several real processes on one folder: killed at any point, racing for names, cleaning up behind each other."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from penstock.kernel.errors import NotFound
from penstock.plumbing.objects.folder.disk import FolderDisk
from penstock.plumbing.objects.folder.syscalls import Syscalls

WRITERS = Path(__file__).with_name("writers.py")


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITERS), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def race(processes: list[subprocess.Popen[str]]) -> list[str]:
    """What each printed. All are started before the first is let go."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return outputs


def content(disk: FolderDisk, key: str) -> bytes | None:
    try:
        file, meta = disk.open(key)
    except NotFound:
        return None
    try:
        return os.pread(file, meta.size + 1, 0)
    finally:
        os.close(file)


def staging(root: Path) -> list[Path]:
    return sorted((root / ".penstock/staging").glob("*"))


def test_a_process_killed_at_any_call_leaves_a_whole_object_or_none(tmp_path: Path) -> None:
    with start("killed", tmp_path) as process:
        calls = int(process.communicate()[0])
    assert calls > 9
    left = found = 0
    for number in range(1, calls):
        root = tmp_path / str(number)
        left += bool(staging(root))
        with closing(FolderDisk(str(root), 1_000)) as disk:
            data = content(disk, "a/b")
            assert data in (None, b"x" * 100_000)
            found += data is not None
            disk.put("a/b", memoryview(b"next"))
            assert len(staging(root)) == 2, "only what the living store itself has"
            assert content(disk, "a/b") == b"next"
        assert staging(root) == []
    assert left > 5
    assert 0 < found < calls - 1


class Synced(Syscalls):
    """Remembers which folders were synced."""

    def __init__(self) -> None:
        self.folders: list[str] = []

    def fsync_folder(self, path: str) -> None:
        super().fsync_folder(path)
        self.folders.append(path)


def test_names_given_by_a_killed_process_are_made_durable_before_they_are_shown(tmp_path: Path) -> None:
    with start("killed", tmp_path) as process:
        calls = int(process.communicate()[0])
    shown_first = 0
    for number in range(1, calls):
        root = tmp_path / str(number)
        synced = Synced()
        with closing(FolderDisk(str(root), 1_000, synced)) as disk:
            if content(disk, "a/b") is not None and synced.folders:
                shown_first += 1
                assert synced.folders == [str(root / "a"), str(root)]
            synced.folders.clear()
            content(disk, "a/b")
            assert synced.folders == [], "once is enough"
    assert shown_first == 1, "one kill comes between the name and its fsync"


def test_what_a_living_process_has_staged_is_left_alone(tmp_path: Path) -> None:
    with start("held", tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = staging(tmp_path)
        with closing(FolderDisk(str(tmp_path), 1_000)) as disk:
            disk.put("b", memoryview(b"x"))
            assert set(before) < set(staging(tmp_path))
        assert staging(tmp_path) == before
        process.kill()
        process.wait()
        with closing(FolderDisk(str(tmp_path), 1_000)) as disk:
            disk.put("b", memoryview(b"x"))
            assert not set(before) & set(staging(tmp_path))


def test_of_racing_processes_exactly_one_wins_each_key(tmp_path: Path) -> None:
    names, keys = ["ant", "bee", "cow"], 60
    outputs = race([start("absent", tmp_path, name, keys) for name in names])
    won = {name: [int(number) for number in output.split()] for name, output in zip(names, outputs, strict=True)}
    assert sorted(number for numbers in won.values() for number in numbers) == list(range(keys))
    with closing(FolderDisk(str(tmp_path), 1_000)) as disk:
        for name, numbers in won.items():
            assert {content(disk, f"folder/{number}") for number in numbers} <= {name.encode()}


def test_increments_by_racing_processes_are_never_lost(tmp_path: Path) -> None:
    with closing(FolderDisk(str(tmp_path), 1_000)) as disk:
        disk.put("count", memoryview(b"0"))
        race([start("count", tmp_path, 25) for _ in range(3)])
        assert content(disk, "count") == b"75"
