"""A value per process: made once, made again in a child, also if another thread was making it at the fork."""

import os
import threading
from collections.abc import Callable

from penstock.plumbing.process.per_process import PerProcess


def status_in_child(holds: Callable[[], bool]) -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if holds() else 1)
    return os.waitpid(pid, 0)[1]


def test_a_child_makes_its_own_and_leaves_its_parents() -> None:
    made: list[int] = []
    left: list[int] = []

    def make() -> int:
        made.append(os.getpid())
        return made[-1]

    value = PerProcess(make, leave=left.append)
    assert value.peek() is None
    assert (value.get(), value.get(), made) == (os.getpid(), os.getpid(), [os.getpid()])
    parent = os.getpid()
    assert (
        status_in_child(
            lambda: left == [parent] and value.peek() is None and value.get() == os.getpid() and value.get() == made[-1]
        )
        == 0
    )
    assert (value.get(), made, left) == (parent, [parent], [])


def test_a_fork_while_another_thread_makes_it_does_not_lock_the_child() -> None:
    is_making, may_end = threading.Event(), threading.Event()

    def make() -> int:
        if threading.current_thread() is not threading.main_thread():
            is_making.set()
            may_end.wait()
        return os.getpid()

    value = PerProcess(make)
    thread = threading.Thread(target=value.get)
    thread.start()
    is_making.wait()
    assert status_in_child(lambda: value.get() == os.getpid()) == 0
    may_end.set()
    thread.join()
    assert value.peek() == os.getpid()
