"""Makes the states of one Spool durable, off the event loop: while one save runs, the next ones gather, and the newest
of them stands for all. So one fdatasync serves every append which waits (`SaveState`, `StateSaved`).
"""

import asyncio
from collections.abc import Callable

from penstock.journals.broker.spools.spool_files import SpoolFiles
from penstock.journals.core.spool import SpoolState
from penstock.kernel.errors import PenstockError

__all__ = ["SpoolSaver"]


class SpoolSaver:
    """Saves for one journal. After a failure nothing is saved any more: nobody knows what is on the disk."""

    def __init__(self, files: SpoolFiles, on_failure: Callable[[PenstockError], None]) -> None:
        self._files = files
        self._on_failure = on_failure
        self._waiting: list[tuple[SpoolState, Callable[[], None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._has_failed = False

    def save(self, state: SpoolState, done: Callable[[], None]) -> None:
        """Call `done` when this state, or a later one, is durable; in the order of the calls."""
        if self._has_failed:
            return
        self._waiting.append((state, done))
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"saving the spool of {self._files.journal}")

    async def quiet(self) -> None:
        """Wait until nothing is being saved: before the files are closed or dropped."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                save = self._files.prepare_save(batch[-1][0])
                try:
                    await asyncio.to_thread(save.run)
                finally:
                    save.end()
                for _, done in batch:
                    done()
        except PenstockError as error:
            self._has_failed = True
            self._waiting.clear()
            self._on_failure(error)
        finally:
            self._task = None
