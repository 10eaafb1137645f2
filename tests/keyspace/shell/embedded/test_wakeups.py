"""Wake-ups reach who lives, and clear away who does not."""

import os
import select
from pathlib import Path

from penstock.keyspace.shell.embedded.wakeups import Wakeups


def is_woken(wakeups: Wakeups) -> bool:
    return bool(select.select([wakeups.file], [], [], 0)[0])


def test_others_are_woken_and_oneself_is_not(tmp_path: Path) -> None:
    one, other, third = (Wakeups(tmp_path) for _ in range(3))
    one.wake_others()
    assert [is_woken(w) for w in (one, other, third)] == [False, True, True]
    other.drain()
    assert not is_woken(other)
    for wakeups in (one, other, third):
        wakeups.close()
    assert list(tmp_path.iterdir()) == []


def test_a_listener_which_never_listens_costs_nothing(tmp_path: Path) -> None:
    """A stopped process's FIFO fills up: that must stop no other."""
    one, stopped = Wakeups(tmp_path), Wakeups(tmp_path)
    while select.select([], [stopped.file], [], 0)[1]:  # until it holds no more
        os.write(stopped.file, bytes(4096))
    one.wake_others()
    stopped.drain()
    assert not is_woken(stopped)
    one.wake_others()
    assert is_woken(stopped)
    one.close()
    stopped.close()


def test_the_fifo_of_the_dead_is_removed(tmp_path: Path) -> None:
    one, dead = Wakeups(tmp_path), Wakeups(tmp_path)
    os.close(dead.file)
    one.wake_others()
    assert len(list(tmp_path.iterdir())) == 1
    one.close()


def test_what_else_lies_there_is_left_alone(tmp_path: Path) -> None:
    one = Wakeups(tmp_path)
    os.mkfifo(tmp_path / ".being-made.fifo")
    (tmp_path / "notes.txt").write_text("")
    one.wake_others()
    assert min(p.name for p in tmp_path.iterdir()) == ".being-made.fifo"
    assert (tmp_path / "notes.txt").read_text() == ""
    one.close()


def test_a_folder_which_is_gone_is_no_error(tmp_path: Path) -> None:
    one = Wakeups(tmp_path / "wake")
    for path in (tmp_path / "wake").iterdir():
        path.unlink()
    (tmp_path / "wake").rmdir()
    one.wake_others()
    one.close()
