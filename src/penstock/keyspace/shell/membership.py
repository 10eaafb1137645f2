"""A process as a member: its key in the KeySpace, under its lease. Design: gazette.md §1.4.

The key exists while the process lives. A process which was killed and started again finds the key of its former life,
and waits until that one's lease has ended: two lives of one member must not serve side by side. Losing the lease ends
the process: the key is gone, all assignments with it, and others serve in its place.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Self

from penstock.kernel.errors import Compacted, Indeterminate, Unavailable
from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import LeaseId
from penstock.keyspace.core.transaction import PutKey, is_absent
from penstock.keyspace.shell.lease_keeper import LeaseKeeper
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.process.logs import get_logger

__all__ = ["Membership"]

_PAUSE_S: Final = 0.1  # between two looks at a key of a former life; doubles up to the next figure
_PAUSE_S_MAX: Final = 2.0

log = get_logger()


class Membership:
    """A member's key and lease. Make it with `announce`; `on_lost` is called at most once."""

    def __init__(self, keyspace: KeySpace, key: str, keeper: LeaseKeeper, revision: Revision) -> None:
        self.key = key
        self.revision = revision  # a mirror which has this one shows the member
        self._keyspace = keyspace
        self._keeper = keeper

    @classmethod
    async def announce(
        cls,
        keyspace: KeySpace,
        key: str,
        value: bytes,
        clock: Callable[[], int],
        *,
        lease_ms: int,
        on_lost: Callable[[str], None],
    ) -> Self:
        """Take a lease and put the key, as soon as an earlier process of this name has released it."""
        keeper = await LeaseKeeper.start(keyspace, lease_ms, on_lost, clock)
        try:
            return cls(keyspace, key, keeper, await _put_when_absent(keyspace, key, value, keeper.id))
        except BaseException:
            await keeper.close()
            raise

    @property
    def lease(self) -> LeaseId:
        return self._keeper.id

    @property
    def is_good(self) -> bool:
        """True if the lease cannot have ended yet."""
        return self._keeper.is_good

    async def update(self, value: bytes) -> Revision:
        """Offer something else from now on: another limit, or nothing, because the process exits."""
        outcome = await self._keyspace.transact(then=[PutKey(self.key, value, self.lease)])
        self.revision = outcome.revision
        return outcome.revision

    async def close(self) -> None:
        """End the lease: the key and all assignments under it are gone at once."""
        await self._keeper.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _put_when_absent(keyspace: KeySpace, key: str, value: bytes, lease: LeaseId) -> Revision:
    pause_s = _PAUSE_S
    while True:
        try:
            outcome = await keyspace.transact([is_absent(key)], [PutKey(key, value, lease)])
            if outcome.succeeded:
                return outcome.revision
            found = await keyspace.get(key)
        except (Unavailable, Indeterminate) as error:
            log.info("member not announced", key=key, reason=str(error))
            found = None
        if found is not None and found.lease == lease:
            return found.mod_revision  # an earlier attempt got through, and its answer did not
        if found is not None:
            log.info("member waits for the lease of its former life", key=key, lease=found.lease)
            await _freed(keyspace, key, found.mod_revision, pause_s)
        else:
            await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)


async def _freed(keyspace: KeySpace, key: str, since: Revision, pause_s: float) -> None:
    """Wait until the key changes, or for a while."""
    try:
        async with asyncio.timeout(pause_s), keyspace.watch(key, Revision(since + 1)) as watch:
            async for batch in watch:
                if any(change.key == key for change in batch.changes):
                    return
    except (TimeoutError, Compacted, Unavailable, Indeterminate):
        pass
