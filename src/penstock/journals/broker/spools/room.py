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
from penstock.kernel.ids import MILLISECOND, NodeId
from penstock.plumbing.ports.disk import is_full
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wal.disk import storage_error

__all__ = ["FullDisk", "Room"]

LOOK_S: Final = 1.0
ROOM_BYTES: Final = 64 << 20  # of a disk that takes content again
log = get_logger()


class FullDisk:
    """Since when a broker refuses content because its disk has no room. Its journals share it.

    A broker that was passed over has no journal that looks for room. So the disk itself is asked.
    """

    def __init__(self, free_bytes: Callable[[], int], now_ns: Callable[[], int]) -> None:
        self._free_bytes = free_bytes
        self._now_ns = now_ns
        self._since_ns: int | None = None

    def refused(self) -> None:
        """Note that content was refused."""
        if self._since_ns is None:
            self._since_ns = self._now_ns()

    def has_room(self) -> None:
        """Note that a journal found room again."""
        self._since_ns = None

    def is_full_for(self, ms: int) -> bool:
        """Return whether content has been refused for so long, and there is no room yet."""
        if self._since_ns is None or self._now_ns() - self._since_ns < ms * MILLISECOND:
            return False
        if self._free_bytes() >= ROOM_BYTES:
            self._since_ns = None
            return False
        return True


class Room:
    """Room for the content of one journal at one broker."""

    def __init__(
        self,
        broker: NodeId,
        files: SpoolFiles,
        unstored: Unstored | None,
        post: Callable[[Event], None],
        disk: FullDisk | None = None,
    ) -> None:
        """`unstored`: the content of all journals that waits for stores."""
        self._broker = broker
        self._files = files
        self._unstored = unstored
        self._disk = disk
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
            if self._disk is not None and shortage.status is Status.DISK_FULL:
                self._disk.refused()
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
            if self._disk is not None:
                self._disk.has_room()
            self._post(RoomChanged(None))
        else:
            self._timer = self._loop.call_later(LOOK_S, self._look)
