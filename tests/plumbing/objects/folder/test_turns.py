"""Names given together are given once each, synced once, and answered each for itself."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

from penstock.plumbing.objects.folder.turns import Answer, FolderTurns

FOLDER = "/a/folder"
OTHERS = 5


class Disk:
    """A folder which writes down what is done to it, and may fail."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fail_at = ""
        self.fail_second_sync = False

    @contextmanager
    def changing(self, folder: str) -> Iterator[None]:
        self._do("lock")
        yield
        self._do("free")

    def sync(self, folder: str) -> None:
        self._do("sync")
        if self.fail_second_sync and self.done.count("sync") == 2:
            raise OSError("sync")

    def give(self, name: str) -> bool:
        self._do(name)
        return True

    def _do(self, what: str) -> None:
        self.done.append(what)
        if what == self.fail_at:
            raise OSError(what)


def give_together(disk: Disk) -> list[Answer]:
    """The first name is being given until all others wait. What the others hear."""
    turns = FolderTurns(disk.changing, disk.sync)
    are_waiting = threading.Event()

    def first() -> bool:
        are_waiting.wait(60)
        return disk.give("first")

    with ThreadPoolExecutor(OTHERS + 1) as threads:
        begun = threads.submit(turns.give, FOLDER, [first])
        while disk.done != ["lock"]:
            os.sched_yield()
        others: list[Future[list[Answer]]] = [
            threads.submit(turns.give, FOLDER, [partial(disk.give, f"name {number}")]) for number in range(OTHERS)
        ]
        while turns.waiting(FOLDER) < OTHERS:
            os.sched_yield()
        are_waiting.set()
        assert begun.result(60) == [(True, None)]
        return [answer for other in others for answer in other.result(60)]


def test_those_who_wait_are_named_under_one_lock_with_one_sync() -> None:
    disk = Disk()

    assert give_together(disk) == [(True, None)] * OTHERS
    assert disk.done[:5] == ["lock", "first", "sync", "free", "lock"]
    assert sorted(disk.done[5:-2]) == [f"name {number}" for number in range(OTHERS)]
    assert disk.done[-2:] == ["sync", "free"]


def test_a_name_alone_is_given_at_once() -> None:
    disk = Disk()
    turns = FolderTurns(disk.changing, disk.sync)

    assert turns.give(FOLDER, [lambda: disk.give("name")]) == [(True, None)]
    assert turns.give(FOLDER, [lambda: False]) == [(False, None)]
    assert disk.done == ["lock", "name", "sync", "free", "lock", "free"]
    assert turns.waiting(FOLDER) == 0


def test_what_is_wrong_with_one_name_does_not_harm_the_others() -> None:
    disk = Disk()
    turns = FolderTurns(disk.changing, disk.sync)
    disk.fail_at = "bad"

    [(is_given, error), good] = turns.give(FOLDER, [partial(disk.give, "bad"), partial(disk.give, "good")])

    assert not is_given
    assert isinstance(error, OSError)
    assert good == (True, None)
    assert disk.done == ["lock", "bad", "good", "sync", "free"]
    assert turns.give(FOLDER, [lambda: disk.give("good")]) == [(True, None)]


def test_what_is_wrong_with_one_of_several_is_its_own() -> None:
    disk = Disk()
    disk.fail_at = "name 2"

    answers = give_together(disk)

    assert [is_given for is_given, _ in answers] == [True, True, False, True, True]
    assert [error is None for _, error in answers] == [True, True, False, True, True]


@pytest.mark.parametrize(("fail_at", "is_given"), [("lock", False), ("sync", True), ("free", True)])
def test_a_failed_lock_or_sync_is_heard(fail_at: str, is_given: bool) -> None:
    disk = Disk()
    turns = FolderTurns(disk.changing, disk.sync)
    disk.fail_at = fail_at

    [answer] = turns.give(FOLDER, [lambda: disk.give("name")])

    assert answer[0] is is_given
    assert isinstance(answer[1], OSError)


def test_a_failed_sync_is_heard_by_all_who_went_together() -> None:
    disk = Disk()
    disk.fail_second_sync = True

    answers = give_together(disk)

    assert [is_given for is_given, _ in answers] == [True] * OTHERS
    assert all(isinstance(error, OSError) for _, error in answers)
