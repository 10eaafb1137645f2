"""Sequencer states in a store: how a task continues where another one ended, perhaps days ago. Design: spark.md.

    <location>/<journal>/<offset, 16 hex digits>-<version>        the ReadState at that offset

The state at an offset is a function of the journal's bytes before it, so it is put if it is absent and never replaced,
it may be shared by all queries, and it may be lost: then it is made again from the nearest earlier one, or from as far
before as producers are remembered. By default states are in `.seq/` of the journal's own fragment store.
"""

from typing import Final

from penstock.journals.storage.fragment_store import FragmentStores
from penstock.kernel.errors import MalformedFrame, NotFound, PreconditionFailed, StorageError
from penstock.kernel.ids import Offset
from penstock.messages.read_state import Horizon, ReadState
from penstock.plumbing.process.logs import get_logger

__all__ = ["HORIZON", "States", "scan_begin"]

HORIZON: Final = Horizon()
FOLDER: Final = ".seq/"
KEPT: Final = 100  # of the newest states of a journal; older ones are for queries which are far behind
log = get_logger()


class States:
    """The states of one journal, of one kind of reading."""

    def __init__(self, stores: FragmentStores, url: str, journal: str, version: str, *, is_default: bool) -> None:
        self._stores = stores
        self._url = url  # empty: nowhere
        self._prefix = f"{FOLDER if is_default else ''}{journal}/"
        self._version = version

    def _key(self, offset: int) -> str:
        return f"{self._prefix}{offset:016x}-{self._version}"

    async def load(self, offset: int) -> ReadState | None:
        """The state at exactly this offset."""
        if not self._url:
            return None
        try:
            found = await self._stores.store(self._url).get(self._key(offset))
            return ReadState.decode(bytes(found.data))
        except NotFound:
            return None
        except (MalformedFrame, StorageError) as error:
            log.warning("state is not read, and made again", key=self._key(offset), reason=str(error))
            return None

    async def nearest(self, offset: int) -> ReadState | None:
        """The state at the largest offset which is not above."""
        before = [each for each in await self._offsets() if each <= offset]
        for each in sorted(before, reverse=True)[:3]:
            if (state := await self.load(each)) is not None:
                return state
        return None

    async def put(self, offset: int, state: ReadState) -> None:
        """Keep a state. A faster task has put the same state; a failing store costs time, later."""
        if not self._url:
            return
        try:
            await self._stores.store(self._url).put(self._key(offset), state.encode(), if_absent=True)
        except PreconditionFailed:
            pass
        except StorageError as error:
            log.warning("state is not kept", key=self._key(offset), reason=str(error))

    async def drop_old(self, below: int) -> None:
        """Remove all but the newest states below an offset."""
        offsets = sorted(each for each in await self._offsets() if each < below)
        if len(offsets) > 2 * KEPT:
            await self._stores.store(self._url).delete(*(self._key(each) for each in offsets[:-KEPT]))

    async def _offsets(self) -> list[int]:
        if not self._url:
            return []
        found: list[int] = []
        async for page in self._stores.store(self._url).list(self._prefix, delimiter="/"):
            for meta in page.objects:
                offset, _, version = meta.key[len(self._prefix) :].partition("-")
                if version == self._version:
                    found.append(int(offset, 16))
        return found


def scan_begin(offset: int) -> Offset:
    """Return where to sequence from if no earlier state exists: as far back as producers are remembered by bytes."""
    return Offset(max(0, offset - HORIZON.bytes))
