import errno
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Semaphore

import pytest
from tests.plumbing.wal.disks import FaultyDisk, UnsyncedDisk
from tests.plumbing.wal.logs import contents, open_log

from penstock.kernel.errors import DiskFull, InternalError, StorageError, Written
from penstock.plumbing.ports.workers import SystemWorkers
from penstock.plumbing.wal.disk import Disk
from penstock.plumbing.wal.recovery import survey
from penstock.plumbing.wal.work import Done, Group, WalJob, Work
from penstock.plumbing.wal.writer import WalWriter


class Heard:
    """A writer with somebody who listens, in place of a loop."""

    def __init__(self, folder: Path, disk: Disk, *, mark_after_s: float | None = None) -> None:
        self.done: SimpleQueue[Done] = SimpleQueue()
        self.segments = open_log(folder, disk)
        self.is_listening = True
        self.writer = WalWriter(self.segments, self._hear, folder=str(folder))
        self.writer.start(SystemWorkers(), mark_after_s)

    def put(self, *records: bytes) -> Group:
        group = Group()
        group.records = list(records)
        group.queued_bytes = sum(map(len, records)) + 8 * len(records)
        self.writer.put(group)
        return group

    def job(self, run: Callable[[], None], doing: str = "a job") -> WalJob:
        job = WalJob(doing, run, lambda error: None)
        self.writer.put(job)
        return job

    def next(self) -> Done:
        return self.done.get(timeout=60)

    def stop(self) -> None:
        self.writer.stop()
        self.writer.join()

    def _hear(self, done: Done) -> bool:
        self.done.put(done)
        return self.is_listening


def test_a_group_is_one_write_and_one_fdatasync(tmp_path: Path) -> None:
    disk = FaultyDisk(UnsyncedDisk())
    heard = Heard(tmp_path, disk)
    disk.calls.clear()
    group = heard.put(b"one", b"two", b"three")
    assert heard.next() == Done(group)
    assert disk.calls == ["pwrite", "fdatasync"]
    assert contents(heard.segments) == [b"one", b"two", b"three"]
    heard.stop()


def test_a_job_runs_in_its_turn(tmp_path: Path) -> None:
    heard = Heard(tmp_path, UnsyncedDisk())
    seen: list[int] = []
    work: list[Work] = [heard.put(b"one"), heard.job(lambda: seen.append(heard.segments.last_lsn)), heard.put(b"two")]
    assert [heard.next() for _ in work] == [Done(each) for each in work]
    assert seen == [1]
    counted = heard.writer.statistics
    assert (counted.batches, counted.records, counted.bytes, counted.jobs) == (2, 2, 6 + 16, 1)
    heard.stop()


def test_what_fails_before_the_write_was_not_written(tmp_path: Path) -> None:
    disk = FaultyDisk(UnsyncedDisk(), code=errno.ENOSPC)
    heard = Heard(tmp_path, disk)
    heard.put(bytes(3000))
    assert heard.next().poison is None
    disk.fail_at = len(disk.calls) + 2  # the fallocate of the next segment
    group = heard.put(bytes(3000))
    done = heard.next()
    assert disk.calls[disk.fail_at - 1] == "fallocate"
    assert (done.work, done.written) == (group, Written.NO)
    assert done.poison is not None
    assert isinstance(done.poison.cause, DiskFull)
    assert "beginning a segment" in done.poison.cause.message
    heard.stop()
    segments = open_log(tmp_path)
    assert contents(segments) == [bytes(3000)]
    segments.close()


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_what_fails_in_the_write_may_be_written_and_nothing_behind_it_is(tmp_path: Path, call: str) -> None:
    disk = FaultyDisk(UnsyncedDisk(), once=True)
    heard = Heard(tmp_path, disk)
    disk.fail_at = len(disk.calls) + 2 + (1 if call == "pwrite" else 2)
    first = heard.put(b"first")
    failing = heard.put(b"failing")
    job = heard.job(lambda: pytest.fail("a poisoned writer does nothing any more"))
    behind = heard.put(bytes(5000))  # it would need a new segment
    assert heard.next() == Done(first)
    failed, refused_job, refused = heard.next(), heard.next(), heard.next()
    assert (failed.work, failed.written) == (failing, Written.UNKNOWN)
    poison = failed.poison
    assert poison is not None
    assert type(poison.cause) is StorageError
    assert "writing a batch failed: Input/output error" in poison.cause.message
    assert refused_job == Done(job, poison, Written.NO)
    assert refused == Done(behind, poison, Written.NO)
    heard.stop()
    assert disk.calls[-3:] == [call, "close", "close"]  # and never a second try


def test_a_job_which_fails_poisons_too(tmp_path: Path) -> None:
    heard = Heard(tmp_path, UnsyncedDisk())

    def fail() -> None:
        raise OSError(errno.EIO, "x")

    job = heard.job(fail, "saving a state")
    done = heard.next()
    assert (done.work, done.written) == (job, Written.UNKNOWN)
    assert done.poison is not None
    assert done.poison.cause.message == "saving a state failed: Input/output error"
    assert heard.put(b"x") is heard.next().work
    heard.stop()


def test_a_defect_poisons_too(tmp_path: Path) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    heard = Heard(tmp_path, UnsyncedDisk())
    heard.job(fail)
    poison = heard.next().poison
    assert poison is not None
    assert isinstance(poison.cause, InternalError)
    assert "ZeroDivisionError" in poison.cause.message
    heard.stop()


def test_an_idle_log_is_marked(tmp_path: Path) -> None:
    class CountedDisk(UnsyncedDisk):
        syncs = Semaphore(0)

        def fdatasync(self, fd: int) -> None:
            self.syncs.release()

    disk = CountedDisk()
    heard = Heard(tmp_path, faulty := FaultyDisk(disk), mark_after_s=0.001)
    assert disk.syncs.acquire(timeout=60)  # the segment's header
    faulty.calls.clear()
    for number in range(2):
        heard.put(b"record")
        assert heard.next().poison is None
        for _ in ("the record", "the mark"):
            assert disk.syncs.acquire(timeout=60)
        assert faulty.calls == ["pwrite", "fdatasync"] * 2 * (number + 1)
    heard.stop()
    found = survey(UnsyncedDisk(), tmp_path).tail
    assert found is not None
    assert (found.last_lsn, found.unsure_at) == (2, None)


def test_a_mark_which_fails_poisons_those_who_come_later(tmp_path: Path) -> None:
    heard = Heard(tmp_path, disk := FaultyDisk(UnsyncedDisk(), once=True))
    heard.job(lambda: None)
    disk.fail_at = len(disk.calls) + 3  # the mark's write
    heard.put(b"record")
    heard.job(heard.segments.mark, "marking the end of the log")
    heard.put(b"behind")
    done = [heard.next() for _ in range(4)]
    assert [each.written for each in done] == [Written.YES, Written.YES, Written.UNKNOWN, Written.NO]
    heard.stop()


def test_when_nobody_listens_any_more_it_gives_the_folder_back(tmp_path: Path) -> None:
    heard = Heard(tmp_path, UnsyncedDisk())
    heard.is_listening = False
    heard.put(b"record")
    heard.writer.join()
    segments = open_log(tmp_path)
    assert contents(segments) == [b"record"]
    segments.close()
