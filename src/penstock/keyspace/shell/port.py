"""The port to the KeySpace, the only source of truth for topology. `tests/keyspace/shell/behaviours.py` is its law.

What always holds: transactions and reads without `at` are linearizable; an acknowledged transaction is never forgotten;
revisions only rise. A lost race is an `TransactOutcome`, not an error. Errors:

- `InvalidArgument`, `LimitExceeded`: the request itself; nothing was asked of the KeySpace.
- `LeaseExpired`: the lease is gone, and every key under it.
- `Compacted`: the history asked for is gone. Read the present state, and watch on from its revision.
- `PreconditionFailed`: a revision which is still to come.
- `Unavailable`: not now; nothing was written. `Indeterminate`: the transaction may have taken place; read before
  repeating it (with compares that no longer hold, a repetition does no harm).
- `StorageError`: the KeySpace failed. `KeySpaceForgot`: it lost acknowledged state, and its users must stop.
"""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, Self

from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import (
    KeySnapshot,
    KeySpaceStatus,
    KeyValue,
    Lease,
    LeaseId,
    LeaseStatus,
    WatchBatch,
)
from penstock.keyspace.core.transaction import Compare, Operation, TransactOutcome

__all__ = ["KeySpace", "Watch"]


class Watch(Protocol):
    """Batches of changes, one after the other, without an end. Only one task may wait for the next.

    It reconnects by itself, and continues where it was. It raises `Compacted` when the next changes are gone, and
    `KeySpaceForgot` when the KeySpace went back.
    """

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> WatchBatch: ...


class KeySpace(Protocol):
    """A KeySpace. Safe to share between tasks of one event loop."""

    async def get(self, key: str, *, at: Revision | None = None) -> KeyValue | None:
        """A key as it is now, or as it was at a revision; None if it does not exist."""
        ...

    async def range(self, prefix: str, *, at: Revision | None = None) -> KeySnapshot:
        """Return all keys under a prefix, now or at a revision. The empty prefix is every key."""
        ...

    async def transact(
        self, compares: Iterable[Compare] = (), then: Iterable[Operation] = (), otherwise: Iterable[Operation] = ()
    ) -> TransactOutcome:
        """If all compares hold do `then`, else do `otherwise`, as one step."""
        ...

    def watch(self, prefix: str, start: Revision) -> AbstractAsyncContextManager[Watch]:
        """Every change under a prefix with revision `start` or greater, also one that is still to come.

        After a `range`, watch from its revision + 1: nothing is missed, nothing comes twice.
        """
        ...

    async def grant_lease(self, ttl_ms: int) -> Lease:
        """A new lease, which ends when it is not renewed for its time. Backends may give more time than asked."""
        ...

    async def keep_alive(self, lease: LeaseId) -> Lease:
        """Renew a lease: its whole time begins again."""
        ...

    async def revoke_lease(self, lease: LeaseId) -> None:
        """End a lease, and remove all keys under it in one revision."""
        ...

    async def lease_status(self, lease: LeaseId) -> LeaseStatus:
        """Return how long a lease has left to live, and its keys."""
        ...

    async def compact(self, revision: Revision) -> None:
        """Forget the history before a revision. The state at it, and all that came later, can still be read."""
        ...

    async def status(self) -> KeySpaceStatus:
        """Return the KeySpace's identity and revision."""
        ...

    async def close(self) -> None:
        """Give back threads, connections and files. Leases live on until they end by themselves."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...
