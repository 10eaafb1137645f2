"""A watch of the embedded KeySpace: a position in the store's own history.

Nothing is queued for it. It continues reading from its position when the revision has moved. So a slow watch costs no
memory, and one that is slower than the compaction gets an error.
"""

from typing import TYPE_CHECKING, Self

from penstock.kernel.errors import AlreadyClosed
from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import WatchBatch

if TYPE_CHECKING:
    from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace

__all__ = ["EmbeddedWatch"]


class EmbeddedWatch:
    """Shows the changes under a prefix from a revision on."""

    def __init__(self, keyspace: "EmbeddedKeySpace", prefix: str, start: Revision) -> None:
        self._keyspace = keyspace
        self._prefix = prefix
        self._shown = Revision(start - 1)  # every change up to here was shown, or not asked for
        self._is_open = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        if not self._is_open:
            raise AlreadyClosed("the watch is closed")
        while True:
            await self._keyspace.wait_for_revision_above(self._shown)
            batch = await self._keyspace.changes(self._prefix, self._shown)
            if batch.revision > self._shown:  # else it starts in the future
                self._shown = batch.revision
                return batch

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_open = False
