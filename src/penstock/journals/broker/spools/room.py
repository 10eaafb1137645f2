"""Room for content: a broker reserves it before it takes content. Design: integrity.md D10.

A client's content for which there is no room is refused before a byte of it has left for a peer. A peer without room
says so in its acknowledgements, and so its primary refuses content too. It looks for room each second. The same holds
while more waits for the stores than may (`unstored.py`).
"""

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.journals.broker.spools.spool_files import SpoolFiles
from penstock.journals.broker.spools.unstored import Unstored
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

    def __init__(
        self, broker: NodeId, files: SpoolFiles, unstored: Unstored | None, post: Callable[[Event], None]
    ) -> None:
        """`unstored`: the content of all journals that waits for stores."""
        self._broker = broker
        self._files = files
        self._unstored = unstored
        self.has_stores = False  # else nothing of this journal waits for one
        self._post = post  # to the core
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None  # set while there is little room, or none

    def reserve(self, length: int) -> Shortage | None:
        """Reserve room for content before it is taken; return a shortage if there is none.

        `StorageError`: the disk has failed.
        """
        if self._unstored is not None and self.has_stores and self._unstored.is_full:
            self._tell(self._unstored.shortage(str(self._files.folder)))
        try:
            if self._files.reserve(length) or self._timer is not None:
                return None
            shortage, is_lacking = self._shortage(length), False
        except OSError as error:
            if not is_full(error):
                raise storage_error(error, f"reserving room in {self._files.folder}") from error
            shortage, is_lacking = self._shortage(length), True
        self._tell(shortage)
        return shortage if is_lacking else None

    def take(self, length: int) -> Shortage | None:
        """Reserve room for content of a client, or return why it is refused."""
        unstored = self._unstored
        if unstored is not None and self.has_stores:
            if unstored.is_full:
                shortage = unstored.shortage(str(self._files.folder))
                self._tell(shortage)
                unstored.refused += 1
                return shortage
            unstored.took(length)
        return self.reserve(length)

    def wait_ns(self) -> int:
        """Return how long content of a client waits before it is taken, because stores are slower than clients."""
        return self._unstored.wait_ns() if self._unstored is not None and self.has_stores else 0

    @property
    def is_short(self) -> bool:
        """Return whether content was refused, and there is no room again."""
        return self._timer is not None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self, shortage: Shortage) -> None:
        """Tell the core, so that primaries of other brokers learn of it. Look again each second."""
        if self._timer is None:
            log.warning("content refused", journal=self._files.journal, reason=shortage.reason)
            self._timer = self._loop.call_later(LOOK_S, self._look)
            self._post(RoomChanged(shortage))

    def _shortage(self, length: int) -> Shortage:
        folder = self._files.folder
        free = self._files.free_bytes
        reason = f"{self._broker} has no room for {length} bytes: {free} bytes are free on the disk of {folder}"
        return Shortage(Status.DISK_FULL, self._broker, str(folder), free, reason)

    def _look(self) -> None:
        try:
            has_room = self._files.widen() and not (self._unstored is not None and self._unstored.is_full)
        except OSError:
            has_room = False  # the next content meets the same error, and ends the replica
        if has_room:
            self._timer = None
            log.info("disk has room again", journal=self._files.journal)
            self._post(RoomChanged(None))
        else:
            self._timer = self._loop.call_later(LOOK_S, self._look)
