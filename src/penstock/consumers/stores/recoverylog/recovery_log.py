"""One shard's recovery log, as one process sees it: play it back, take it over, record into it.

    standby ──▶ restore ──▶ commit, commit, ... ──▶ close

`standby` is for hot standbys: the log is played back and followed, so that `restore` has little left to do. Hints are
kept when the store is restored, and then from time to time; what always holds: they are kept at barriers which the log
has acknowledged, and by a process which then was the log's author.
"""

import asyncio
import contextlib
import secrets
from pathlib import Path
from typing import Final

from penstock.consumers.core.recoverylog.hints import Hints
from penstock.consumers.core.recoverylog.pruning import refuse_retention
from penstock.consumers.core.recoverylog.recorder import Recorder
from penstock.consumers.stores.recoverylog.hints_keeper import HintsKeeper
from penstock.consumers.stores.recoverylog.log_reader import LogReader
from penstock.consumers.stores.recoverylog.log_writer import LogWriter
from penstock.consumers.stores.recoverylog.player import Player
from penstock.consumers.stores.recoverylog.recording import Recording, RecordingBarrier
from penstock.consumers.stores.recoverylog.work_folder import WorkFolder
from penstock.journals.client.journal import Journals
from penstock.journals.records.labels import LabelSelector, LabelSet
from penstock.journals.storage.fragment_store import FragmentStores
from penstock.kernel.errors import AlreadyClosed, NotFound, PenstockError, StorageError
from penstock.plumbing.process.logs import get_logger

__all__ = ["RecoveryLog"]

KEEP_HINTS_S: Final = 300.0
KEEP_HINTS_BYTES: Final = 16 << 20  # recorded since they were kept: a playback has that much more to read
MOVE_HINTS_BYTES: Final = 256 << 20  # recorded since they became backups: else nothing behind those could be pruned

log = get_logger()


class RecoveryLog:
    """The log of one shard, for one life of its store, which works below the folder `base`.

    `reads_stores`: stored fragments are read straight from their store, where this process can.
    """

    def __init__(
        self,
        journals: Journals,
        hints: HintsKeeper,
        base: Path,
        *,
        owner: str = "",
        reads_stores: bool = True,
        timeout: float = 60.0,
    ) -> None:
        self.name = hints.log
        self._folder = WorkFolder(base, self.name)
        self._journals = journals
        self._hints = hints
        self._stores = FragmentStores() if reads_stores else None
        self._writer = LogWriter(journals, self.name, secrets.randbits(32), owner=owner, timeout=timeout)
        self._player: Player | None = None
        self._playing: asyncio.Task[Recorder] | None = None
        self._recording: Recording | None = None
        self._first_hints: Hints | None = None
        self._kept_at = 0.0
        self._unkept_bytes = 0
        self._unmoved_bytes = 0

    @property
    def played_bytes(self) -> int:
        """The number of bytes of the log played so far."""
        return self._player.played_bytes if self._player is not None else 0

    @property
    def recording(self) -> Recording:
        if self._recording is None:
            raise AlreadyClosed(f"{self.name} is not restored, or closed")
        return self._recording

    # Playing back

    async def standby(self) -> None:
        """Return when the log is played back once; from then on it is followed, until `restore` or `close`."""
        player, playing = await self._start()
        at_head = asyncio.create_task(player.at_head.wait())
        try:
            await asyncio.wait([at_head, playing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            at_head.cancel()
        if playing.done():
            playing.result()

    async def restore(self) -> Recording:
        """Take the log over: earlier processes can no longer record. The folder then has the files."""
        assert self._recording is None, "restored already"
        await self._check_retention()
        recorder = await self._take_over()
        self._first_hints = recorder.hints()
        self._recording = Recording(self._folder.path, recorder)
        return self._recording

    async def _check_retention(self) -> None:
        found = await self._journals.list(LabelSelector(LabelSet.of({"name": self.name})))
        if found:
            refuse_retention(found[0].spec)

    async def _take_over(self) -> Recorder:
        while True:
            hints = await self._hints.pick()
            player, playing = await self._start(hints)
            player.promote(self._writer)
            try:
                return await playing
            except (StorageError, NotFound):
                if await self._hints.pick() == hints:
                    raise
                # Meanwhile another process has kept newer hints, and what the old ones needed may have been pruned.

    async def restored(self) -> None:
        """The store has read its checkpoint: the hints which led to it become backups of new ones."""
        assert self._first_hints is not None
        await self._hints.move_on(self._first_hints)
        self._kept_at = asyncio.get_running_loop().time()

    async def _start(self, hints: Hints | None = None) -> "tuple[Player, asyncio.Task[Recorder]]":
        if self._player is None or self._playing is None or self._playing.done():
            hints = hints if hints is not None else await self._hints.pick()
            reader = LogReader(self._journals, self.name, self._stores)
            self._player = Player(hints, self._folder.path, reader)
            self._playing = asyncio.create_task(self._player.run(), name=f"{self.name}: playback")
        return self._player, self._playing

    # Recording

    async def commit(self, barrier: RecordingBarrier) -> None:
        """Append all of it, or raise: `Fenced` if another process has taken over."""
        end = await self._writer.append(barrier.frames)
        hints = self.recording.acknowledged(barrier, end)
        self._unkept_bytes += barrier.size
        self._unmoved_bytes += barrier.size
        is_due = asyncio.get_running_loop().time() - self._kept_at > KEEP_HINTS_S
        if hints is not None and (is_due or self._unkept_bytes > KEEP_HINTS_BYTES):
            await self._keep(hints)

    async def _keep(self, hints: Hints) -> None:
        """Keep the hints in the KeySpace, if it answers: the commit is done in either case."""
        is_moving = self._unmoved_bytes > MOVE_HINTS_BYTES
        try:
            await (self._hints.move_on(hints) if is_moving else self._hints.keep(hints))
        except PenstockError as error:
            log.warning("hints not kept", log=self.name, reason=str(error))
            is_moving = False
        if is_moving:
            self._unmoved_bytes = 0
        self._kept_at = asyncio.get_running_loop().time()
        self._unkept_bytes = 0

    async def close(self) -> None:
        """Release everything."""
        self._recording = None
        playing, self._playing = self._playing, None
        if playing is not None:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
        if self._stores is not None:
            with contextlib.suppress(PenstockError):
                await self._stores.close()
        await asyncio.to_thread(self._folder.remove)
