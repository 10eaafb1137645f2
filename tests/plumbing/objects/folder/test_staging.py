import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.plumbing.objects.folder.locks import FolderLocks
from penstock.plumbing.objects.folder.staging import FolderStaging
from penstock.plumbing.objects.folder.syscalls import Syscalls


class Stutter(Syscalls):
    """Writes at most three bytes at a time, as a kernel may."""

    def write(self, file: int, data: memoryview) -> int:
        return super().write(file, data[:3])

    def copy(self, source: int, target: int, size: int) -> int:
        return super().copy(source, target, min(size, 3))


@pytest.fixture
def staging(tmp_path: Path) -> Iterator[FolderStaging]:
    locks = FolderLocks(str(tmp_path), 1_000, Syscalls().fsync_folder)
    locks.create()
    made = FolderStaging(str(tmp_path / "staging"), locks, Stutter())
    yield made
    made.close()


def test_short_writes_are_continued(staging: FolderStaging, tmp_path: Path) -> None:
    staged = staging.new()
    staged.write(memoryview(b"0123456789"))
    staged.write(memoryview(b""))
    staged.write(memoryview(bytearray(b"ab")))
    source = tmp_path / "source"
    source.write_bytes(b"XYZUVW0")
    with source.open("rb") as file:
        staged.copy_from(file.fileno(), 7)
    assert Path(staged.path).read_bytes() == b"0123456789abXYZUVW0"
    assert staged.sync().st_size == 19
    staged.close()
    staged.close()
    assert not Path(staged.path).exists()


def test_a_store_which_only_reads_leaves_no_trace(tmp_path: Path) -> None:
    FolderStaging(
        str(tmp_path / "staging"), FolderLocks(str(tmp_path), 10, Syscalls().fsync_folder), Syscalls()
    ).close()
    assert list(tmp_path.iterdir()) == []


def test_closing_removes_what_was_staged(staging: FolderStaging, tmp_path: Path) -> None:
    staged = staging.new()
    staging.close()
    assert list((tmp_path / "staging").iterdir()) == []
    staged.close()
    staging.new().close()
    assert len(list((tmp_path / "staging").iterdir())) == 2


def test_a_lock_file_that_another_process_removed_is_gone(
    staging: FolderStaging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other store closed between our listing and our look at its lock."""
    monkeypatch.setattr(os, "listdir", lambda path: ["0123.alive"])
    staging.new().close()
    monkeypatch.undo()
    assert len(list((tmp_path / "staging").iterdir())) == 2


def test_closing_waits_for_a_sweep(staging: FolderStaging, tmp_path: Path) -> None:
    staging.new().close()
    (alive,) = (tmp_path / "staging").glob("*.alive")
    locks = FolderLocks(str(tmp_path), 1_000, Syscalls().fsync_folder)
    closer = threading.Thread(target=staging.close)
    with locks.changing(str(tmp_path / "staging")):
        closer.start()
        closer.join(0.2)
        assert alive.exists()
    closer.join()
    assert not alive.exists()
