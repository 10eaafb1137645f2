"""Values that a process does not share with the process that forked it: event loops, connections, locks.

    clients = PerProcess(lambda: Journals(addresses))
    clients.get()        # after a fork, a new client

A child of `fork` has the memory of its parent, and none of its threads. The sockets and the epoll of its parent's event
loop are the parent's: the child must not use them, and must not close them in the way that tells the peer. What always
holds: `get` never returns a value that another process made, and the parent's values are never finalized while the
child runs.
"""

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

__all__ = ["PerProcess"]

T = TypeVar("T")
_all: Final["weakref.WeakSet[PerProcess[Any]]"] = weakref.WeakSet()
_abandoned: Final[list[Any]] = []  # a finalizer of these would close the parent's connections


class PerProcess(Generic[T]):
    """A value that each process makes when it first asks for it. Calls may come from any thread."""

    def __init__(self, make: Callable[[], T], *, leave: Callable[[T], None] | None = None) -> None:
        """`leave`: what a child does about its parent's value."""
        self._make = make
        self._leave = leave
        self._lock = threading.RLock()
        self.made: T | None = None  # this process has made it; callers in a hurry look here before they call `get`
        _all.add(self)

    def get(self) -> T:
        """Return this process's value."""
        made = self.made
        if made is not None:
            return made
        with self._lock:
            if self.made is None:
                self.made = self._make()
            return self.made

    def peek(self) -> T | None:
        """Return this process's value if it has made one."""
        return self.made

    def _forget(self) -> None:
        """Leave the parent's value and lock, which another of its threads may hold."""
        self._lock = threading.RLock()
        if self.made is not None:
            _abandoned.append(self.made)
            if self._leave is not None:
                self._leave(self.made)
            self.made = None


def _forget_all() -> None:
    for each in list(_all):
        each._forget()


os.register_at_fork(after_in_child=_forget_all)
