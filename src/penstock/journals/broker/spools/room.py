"""Room for content: a broker reserves it before it takes content. Design: integrity.md D10.

A client's content for which there is no room is refused before a byte of it has left for a peer. A peer without room
says so in its acknowledgements, and so its primary refuses content too. It looks for room each second.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.journals.broker.spools.spool_files import SpoolFiles
from penstock.journals.core.effects import RoomChanged
from penstock.journals.records.api import Shortage, Status
from penstock.kernel.effects import Event
from penstock.kernel.ids import NodeId
from penstock.plumbing.ports.disk import is_full
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wal.disk import storage_error

__all__ = ["Room"]

LOOK_S: Final = 1.0
log = get_logger()


class Room:
    """Room for the content of one journal at one broker."""

    def __init__(self, broker: NodeId, files: SpoolFiles, post: Callable[[Event], None]) -> None:
        self._broker = broker
        self._files = files
        self._post = post  # to the core
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None  # set while there is little room, or none

    def reserve(self, length: int) -> Shortage | None:
        """Reserve room for content before it is taken; return a shortage if there is none.

        `StorageError`: the disk has failed.
        """
        try:
            if self._files.reserve(length) or self._timer is not None:
                return None
            shortage, is_lacking = self._shortage(length), False
        except OSError as error:
            if not is_full(error):
                raise storage_error(error, f"reserving room in {self._files.folder}") from error
            shortage, is_lacking = self._shortage(length), True
        if self._timer is None:
            log.warning(
                "disk short of room",
                journal=self._files.journal,
                folder=shortage.folder,
                free_bytes=shortage.free_bytes,
            )
            self._timer = self._loop.call_later(LOOK_S, self._look)
            self._post(RoomChanged(shortage))
        return shortage if is_lacking else None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _shortage(self, length: int) -> Shortage:
        folder = self._files.folder
        free = self._files.free_bytes
        reason = f"{self._broker} has no room for {length} bytes: {free} bytes are free on the disk of {folder}"
        return Shortage(Status.DISK_FULL, self._broker, str(folder), free, reason)

    def _look(self) -> None:
        try:
            has_room = self._files.widen()
        except OSError:
            has_room = False  # the next content meets the same error, and ends the replica
        if has_room:
            self._timer = None
            log.info("disk has room again", journal=self._files.journal)
            self._post(RoomChanged(None))
        else:
            self._timer = self._loop.call_later(LOOK_S, self._look)
