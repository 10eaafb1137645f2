"""The KeySpace on our own quorum log: `quorum://m1:7070,m2:7070,m3:7070`. Design: operating.md O5.

Each transaction is an entry of the log, answered when the leader's machine has applied it. Reads join the leader's read
rounds, so they are linearizable. Watches are shown by any node. The client repeats a transaction under its pair, so
through a fail-over it takes effect once.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Self, TypeVar

from penstock.kernel.errors import (
    AlreadyClosed,
    Compacted,
    DeadlineExceeded,
    Indeterminate,
    KeySpaceForgot,
    NotFound,
    Overloaded,
    Refused,
    Unavailable,
    Unimplemented,
)
from penstock.kernel.ids import Offset, Revision
from penstock.keyspace.core.limits import check_key, check_lease_ms, check_prefix, check_transaction
from penstock.keyspace.core.records import (
    NO_REVISION,
    KeySnapshot,
    KeySpaceStatus,
    KeyValue,
    Lease,
    LeaseId,
    LeaseStatus,
)
from penstock.keyspace.core.transaction import Compare, Operation, Transaction, TransactOutcome
from penstock.plumbing.ports.ports import Ports, system_ports
from penstock.plumbing.wire.tls import Tls
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.keyspace.watch import QuorumWatch
from penstock.quorum.records.keyspace import (
    KEYSPACE_OP,
    KEYSPACE_QUERY,
    KEYSPACE_SHARD,
    Compact,
    DoneAt,
    EntryAt,
    FoundKeySpace,
    GetKey,
    Grant,
    KeepAlive,
    KeySpaceOp,
    KeySpaceQuery,
    LeaseQuery,
    RangePart,
    RangeQuery,
    Revoke,
    RunTransaction,
    StatusQuery,
    decode_answer,
)

__all__ = ["QuorumKeySpace"]

T = TypeVar("T")
REQUEST_S: Final = 5.0  # a fail-over takes less


class QuorumKeySpace:
    """A KeySpace on the nodes of a cluster. Make one with `open`, which connects to no node yet."""

    def __init__(self, log: QuorumLog, ports: Ports, request_s: float) -> None:
        self.log = log
        self._ports = ports
        self._request_s = request_s
        self._is_open = True
        self._newest = NO_REVISION  # that a linearizable call has shown
        self.watches: dict[QuorumWatch, None] = {}

    @classmethod
    async def open(
        cls,
        addresses: Sequence[str],
        *,
        shard: str = KEYSPACE_SHARD,
        token: str | None = None,
        tls: Tls | None = None,
        ports: Ports | None = None,
        request_s: float = REQUEST_S,
    ) -> Self:
        """Return the KeySpace of these nodes. Watches prefer the first of them."""
        log = QuorumLog(addresses, shard, token=token, tls=tls, ports=ports)
        await log.__aenter__()
        return cls(log, ports or system_ports(), request_s)

    # Reading

    async def get(self, key: str, *, at: Revision | None = None) -> KeyValue | None:
        check_key(key)
        found = await self._ask(EntryAt, GetKey(key, at))
        self._saw(found.revision)
        return found.entry

    async def range(self, prefix: str, *, at: Revision | None = None) -> KeySnapshot:
        check_prefix(prefix)
        while True:
            try:
                return await self._range(prefix, at)
            except Compacted:
                if at is not None:
                    raise  # else the pages took longer than the history lasts: begin again with the present

    async def _range(self, prefix: str, at: Revision | None) -> KeySnapshot:
        page = await self._ask(RangePart, RangeQuery(prefix, "", at))
        if at is None:
            self._saw(page.snapshot.revision)
        revision, entries = page.snapshot.revision, page.snapshot.entries
        while not page.is_last:
            page = await self._ask(RangePart, RangeQuery(prefix, entries[-1].key, revision))
            entries += page.snapshot.entries
        return KeySnapshot(revision, entries)

    async def status(self) -> KeySpaceStatus:
        status = await self._ask(KeySpaceStatus, StatusQuery())
        if not status.store_id:
            status = await self._do(KeySpaceStatus, FoundKeySpace(self._ports.chance.token(16).hex()))
        self._saw(status.revision)
        return status

    def watch(self, prefix: str, start: Revision) -> AbstractAsyncContextManager[QuorumWatch]:
        check_prefix(prefix)
        return QuorumWatch(self, prefix, start)

    # Writing

    async def transact(
        self, compares: Iterable[Compare] = (), then: Iterable[Operation] = (), otherwise: Iterable[Operation] = ()
    ) -> TransactOutcome:
        transaction = Transaction(tuple(compares), tuple(then), tuple(otherwise))
        check_transaction(transaction)
        outcome = await self._do(TransactOutcome, RunTransaction(transaction))
        self._saw(outcome.revision)
        return outcome

    async def compact(self, revision: Revision) -> None:
        await self._do(DoneAt, Compact(revision))

    # Leases

    async def grant_lease(self, ttl_ms: int) -> Lease:
        check_lease_ms(ttl_ms)
        return await self._do(Lease, Grant(ttl_ms))

    async def keep_alive(self, lease: LeaseId) -> Lease:
        return await self._do(Lease, KeepAlive(lease))

    async def revoke_lease(self, lease: LeaseId) -> None:
        await self._do(DoneAt, Revoke(lease))

    async def lease_status(self, lease: LeaseId) -> LeaseStatus:
        return await self._ask(LeaseStatus, LeaseQuery(lease))

    # Life

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            for watch in list(self.watches):
                watch.close()
            await self.log.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Plumbing

    def check_open(self) -> None:
        if not self._is_open:
            raise AlreadyClosed("the KeySpace is closed")

    def _saw(self, revision: Revision) -> None:
        """Note the newest revision. Calls that overlap may end in any order."""
        self._newest = max(self._newest, revision)

    async def check_not_behind(self, revision: Revision) -> tuple[Revision, Offset]:
        """Return the present revision, and how far a node must have applied to show it.

        `KeySpaceForgot`: the KeySpace is behind a revision that it has shown.
        """
        status, upto = await self._read(KeySpaceStatus, StatusQuery())
        if status.revision < revision:
            raise KeySpaceForgot(f"the KeySpace is at revision {status.revision}, and was at {revision}")
        return status.revision, upto

    async def _do(self, kind: type[T], op: KeySpaceOp) -> T:
        self.check_open()
        try:
            appended = await self._in_life(
                self.log.append(KEYSPACE_OP.encode(op), ack="applied", timeout=self._request_s)
            )
        except (Overloaded, NotFound, Unimplemented) as error:
            raise Unavailable(error.message, next_step=error.next_step) from error
        except Refused as error:  # rolled back, or fenced before it was appended: nothing of it was done
            raise Unavailable(error.message) from error
        if not isinstance(appended.result, bytes):
            raise Indeterminate("it is in the log, and was not applied in time", next_step="read before you repeat it")
        return decode_answer(kind, appended.result)

    async def _ask(self, kind: type[T], query: KeySpaceQuery) -> T:
        return (await self._read(kind, query))[0]

    async def _read(self, kind: type[T], query: KeySpaceQuery) -> tuple[T, Offset]:
        """Ask the machine; return its answer, and how far it had applied."""
        self.check_open()
        before = self._newest
        try:
            read = await self._in_life(self.log.read(KEYSPACE_QUERY.encode(query), timeout=self._request_s))
        except (DeadlineExceeded, Indeterminate, NotFound, Overloaded, Unimplemented) as error:
            raise Unavailable(error.message, next_step=error.next_step) from error
        answer = decode_answer(kind, read.result)
        if isinstance(answer, EntryAt | KeySpaceStatus) and answer.revision < before:
            raise KeySpaceForgot(f"the KeySpace is at revision {answer.revision}, and was at {before}")
        return answer, read.applied

    async def _in_life(self, call: Awaitable[T]) -> T:
        """Wait for a call; `AlreadyClosed` if the KeySpace is closed meanwhile."""
        try:
            return await call
        except (Unavailable, Indeterminate, asyncio.CancelledError):
            if not self._is_open:
                raise AlreadyClosed("the KeySpace was closed") from None
            raise
