import threading
from pathlib import Path

import pytest

from penstock.kernel.errors import ObjectStoreFailed, Written
from penstock.plumbing.objects.folder.locks import STRIPES, FolderLocks
from penstock.plumbing.objects.folder.syscalls import Syscalls

fsync_folder = Syscalls().fsync_folder


@pytest.fixture
def locks(tmp_path: Path) -> FolderLocks:
    made = FolderLocks(str(tmp_path), 5_000, fsync_folder)
    made.create()
    made.create()
    return made


def test_one_thread_at_a_time_changes_a_folder(locks: FolderLocks) -> None:
    inside, most = 0, 0

    def change() -> None:
        nonlocal inside, most
        for _ in range(50):
            with locks.changing("a"):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=change) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_lock_kept_too_long_is_a_definite_failure(locks: FolderLocks, tmp_path: Path) -> None:
    impatient = FolderLocks(str(tmp_path), 10, fsync_folder)
    with locks.changing("a"):
        with pytest.raises(ObjectStoreFailed) as caught, impatient.changing("a"):
            pass
        with pytest.raises(ObjectStoreFailed):
            impatient.settle("a")
    assert (caught.value.written, caught.value.retryable) == (Written.NO, True)
    impatient.settle("a")


def test_many_folders_are_locked_at_once_even_where_they_share_a_file(locks: FolderLocks) -> None:
    with locks.changing(*(f"folder-{number}" for number in range(3 * STRIPES))):
        pass


def test_where_nobody_ever_wrote_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    FolderLocks(str(tmp_path / "nothing"), 10, fsync_folder).settle("a")
