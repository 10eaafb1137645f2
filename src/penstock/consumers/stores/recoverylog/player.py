"""Runs a Playback (`penstock.consumers.core.recoverylog.playback`): reads the log, writes files, hands over.

Files are built under `.fnodes`, by their numbers, and linked to their paths at the end. The folder belongs to this
player alone, and its earlier contents are thrown away: only the log counts. Chunks are played in a thread, so that the
event loop stays free, and read ahead, so that the thread need not wait.
"""

import asyncio
import os
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from penstock.consumers.core.recoverylog.hints import Hints
from penstock.consumers.core.recoverylog.playback import (
    AppendHandoff,
    AtHead,
    CreateFile,
    LinkFiles,
    LogChunk,
    Playback,
    PlayState,
    Promote,
    ReadRecoveryLog,
    RemoveFile,
    WriteFile,
)
from penstock.consumers.core.recoverylog.recorder import Recorder
from penstock.consumers.stores.recoverylog.log_reader import LogReader
from penstock.consumers.stores.recoverylog.log_writer import LogWriter
from penstock.kernel.effects import Effect, Event, Stop
from penstock.kernel.errors import StorageError
from penstock.kernel.ids import Instant

__all__ = ["Player"]

STAGING: Final = ".fnodes"
OPEN_FILES_MAX: Final = 64
NOW: Final = Instant(0)  # a playback does not look at the clock


class Player:
    """Plays one log back into a folder. `await run()` ends when it has handed over; `promote` makes it do so."""

    def __init__(self, hints: Hints, folder: Path, reader: LogReader) -> None:
        self.folder = folder
        self.played_bytes = 0
        self.at_head = asyncio.Event()  # everything was played once: a hot standby
        self._playback = Playback(hints)
        self._reader = reader
        self._files: dict[int, int] = {}  # descriptors by fnode
        self._writer: LogWriter | None = None
        self._promoted = asyncio.Event()
        self._is_done = False

    def promote(self, writer: LogWriter) -> None:
        """Take the log over, once all of it is played."""
        self._writer = writer
        self._promoted.set()

    async def run(self) -> Recorder:
        """Play, follow the log until promoted, hand over. StorageError if the log lacks something that it must have."""
        try:
            await asyncio.to_thread(self._clear)
            effects = self._playback.start()
            while not self._is_done:
                effects = [more for effect in effects for more in await self._perform(effect)]
            return self._playback.recorder
        finally:
            await self._reader.close()
            self._close_files()

    async def copy(self) -> None:
        """Play the log up to its present end, and stop: the folder then has the files, and no process was fenced."""
        try:
            await asyncio.to_thread(self._clear)
            effects = self._playback.start()
            while self._playback.state is PlayState.BACKFILL:
                effects = [more for effect in effects for more in await self._perform(effect)]
            await asyncio.to_thread(self._link, dict(sorted(self._playback.fsm.paths.items())))
        finally:
            await self._reader.close()
            self._close_files()

    async def _perform(self, effect: Effect) -> list[Effect]:
        match effect:
            case ReadRecoveryLog():
                return await self._read(effect)
            case AppendHandoff(_, frame):
                assert self._writer is not None
                await self._writer.hand_off(frame)
            case LinkFiles(paths):
                await asyncio.to_thread(self._link, paths)
                self._is_done = True
            case Stop(reason):
                raise StorageError(f"{reason}: see whether backups of its hints, or of its fragments, are left")
            case _:
                raise AssertionError(f"unknown effect {effect}")
        return []

    async def _read(self, effect: ReadRecoveryLog) -> list[Effect]:
        """Read and play. At the head, wait for more or for the promotion, whichever is first."""
        is_tail = self._playback.state is not PlayState.BACKFILL
        if self._playback.state is PlayState.TAIL:
            self.at_head.set()
            if not self._promoted.is_set():
                event = await self._next_or_promotion(effect)
                return await self._step(event) if event is not None else [effect]
            assert self._writer is not None
            return [*self._playback.step(Promote(self._writer.author), NOW), effect]
        return await self._step(await self._reader.next(effect.offset, follow=is_tail))

    async def _next_or_promotion(self, effect: ReadRecoveryLog) -> LogChunk | AtHead | None:
        reading = asyncio.create_task(self._reader.next(effect.offset, follow=True))
        promoted = asyncio.create_task(self._promoted.wait())
        try:
            await asyncio.wait([reading, promoted], return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            await _cancel([reading, promoted])

    async def _step(self, event: Event) -> list[Effect]:
        if isinstance(event, LogChunk):
            self.played_bytes += len(event.data)
        return await asyncio.to_thread(self._play, event)

    # Files, in a thread

    def _play(self, event: Event) -> list[Effect]:
        """Run a step of the machine with its changes to files; return the effects for the event loop."""
        left: list[Effect] = []
        for effect in self._playback.step(event, NOW):
            match effect:
                case WriteFile(fnode, offset, content):
                    _write(self._file(fnode), content, offset)
                case CreateFile(fnode):
                    self._file(fnode)
                case RemoveFile(fnode):
                    self._close_files([fnode])
                    self._staged(fnode).unlink()
                case _:
                    left.append(effect)
        return left

    def _clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / STAGING).mkdir(parents=True)

    def _staged(self, fnode: int) -> Path:
        return self.folder / STAGING / str(fnode)

    def _file(self, fnode: int) -> int:
        file = self._files.get(fnode)
        if file is None:
            if len(self._files) >= OPEN_FILES_MAX:
                self._close_files([next(iter(self._files))])
            file = self._files[fnode] = os.open(self._staged(fnode), os.O_WRONLY | os.O_CREAT, 0o600)
        return file

    def _close_files(self, fnodes: Iterable[int] | None = None) -> None:
        for fnode in list(self._files if fnodes is None else fnodes):
            file = self._files.pop(fnode, None)
            if file is not None:
                os.close(file)

    def _link(self, paths: dict[str, int]) -> None:
        self._close_files()
        for path, fnode in paths.items():
            target = self.folder / _checked(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(self._staged(fnode), target)
        shutil.rmtree(self.folder / STAGING)


def _write(file: int, content: bytes, offset: int) -> None:
    view = memoryview(content)
    while len(view):
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def _checked(path: str) -> str:
    """A path which stays within the folder. Logs are data: they must not make a player write elsewhere."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or parts[0] == STAGING or "\0" in path:
        raise StorageError(f"a recovery log names the file {path!r}, which is outside of its folder")
    return path


async def _cancel(tasks: Iterable["asyncio.Task[object]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
