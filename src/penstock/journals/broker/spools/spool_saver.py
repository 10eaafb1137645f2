"""Makes the states of one Spool durable, off the event loop: while one save runs, the next ones gather, and the newest
of them stands for all. So one fdatasync serves every append which waits (`SaveState`, `StateSaved`).

A state for which the disk has no room is tried again each second, and all that waits for it waits on. After any other
failure nothing is saved any more, because the content of the disk is unknown.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from penstock.journals.broker.spools.spool_files import Save, SpoolFiles
from penstock.journals.core.spool import SpoolState
from penstock.kernel.errors import DiskFull, PenstockError
from penstock.plumbing.process.logs import get_logger

__all__ = ["SpoolSaver"]

RETRY_S: Final = 1.0
log = get_logger()


class SpoolSaver:
    """Saves for one journal."""

    def __init__(self, files: SpoolFiles, on_failure: Callable[[PenstockError], None]) -> None:
        self._files = files
        self._on_failure = on_failure
        self._waiting: list[tuple[SpoolState, Callable[[], None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._has_failed = False
        self._given_up = asyncio.Event()

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

    def give_up(self) -> None:
        """Stop waiting for room, because the replica ends. States that are not saved were not acknowledged."""
        self._given_up.set()

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                save = self._files.prepare_save(batch[-1][0])
                try:
                    await self._write(save)
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

    async def _write(self, save: Save) -> None:
        while True:
            try:
                return await asyncio.to_thread(save.run)
            except DiskFull as error:
                if not save.is_content_synced or self._given_up.is_set():
                    raise
                log.warning("state waits for room", journal=self._files.journal, reason=error.message)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S):
                    await self._given_up.wait()
