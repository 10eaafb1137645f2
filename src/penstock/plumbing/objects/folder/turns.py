"""Threads of one process that give names in the same folder: the thread that has its turn serves all that wait.

The folder's lock (`locks.py`) is between processes, and is held while names are synced. Threads which took it one after
the other would each pay for a sync, and find out by polling that it is free; here one of them takes it once, gives all
the names that were asked for meanwhile, and syncs the folder once. A caller still gets its answer only once its name is
durable, and while the lock is free, every name is.
"""

import threading
import zlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Final

__all__ = ["Answer", "FolderTurns"]

Answer = tuple[bool, BaseException | None]  # whether there is a name now, and what went wrong, if it did

_STRIPES: Final = 64


class _Name:
    """A name to be given, and what became of it."""

    def __init__(self, give: Callable[[], bool]) -> None:
        self._give = give
        self.is_over = False
        self.is_given = False  # maybe not durable, if there is an error
        self.error: BaseException | None = None

    def give(self) -> None:
        try:
            self.is_given = self._give()
        except BaseException as error:
            self.error = error


class FolderTurns:
    """Gives names. `changing` holds a folder's lock; `sync` makes the names in it durable."""

    def __init__(self, changing: Callable[[str], AbstractContextManager[None]], sync: Callable[[str], None]) -> None:
        self._changing = changing
        self._sync = sync
        self._mutex = threading.Lock()
        self._waiting: dict[str, list[_Name]] = {}  # by folder; without the names that a thread is giving now
        self._turns = [threading.Lock() for _ in range(_STRIPES)]

    def give(self, folder: str, gives: Iterable[Callable[[], bool]]) -> list[Answer]:
        """Call each of `gives`, of which there is at least one, under the folder's lock, and sync: what became of each.

        An answer with both a name and an error means that the name may not survive a power cut.
        """
        names = [_Name(give) for give in gives]
        with self._mutex:
            self._waiting.setdefault(folder, []).extend(names)
        with self._turns[zlib.crc32(folder.encode()) % _STRIPES]:
            if not names[-1].is_over:
                with self._mutex:
                    together = self._waiting.pop(folder)
                self._give_all(folder, together)
        return [(name.is_given, name.error) for name in names]

    def waiting(self, folder: str) -> int:
        """Return how many names wait for the thread that is giving others."""
        with self._mutex:
            return len(self._waiting.get(folder, ()))

    def _give_all(self, folder: str, together: list[_Name]) -> None:
        try:
            with self._changing(folder):
                for name in together:
                    name.give()
                if any(name.is_given for name in together):
                    self._sync(folder)
        except BaseException as error:
            for name in together:
                name.error = name.error or error
        finally:
            for name in together:
                name.is_over = True
