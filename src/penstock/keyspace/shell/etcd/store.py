"""etcd v3 as the KeySpace: the port over four of etcd's services, with our own small messages (decision 201).

What always holds besides the port's law: answers come from one cluster, and its revision never falls; if either is not
so, etcd was restored or replaced, and every further call says `KeySpaceForgot`. A call that only reads is tried again,
on the other endpoints too. A call that changes something never is: its caller knows better what a lost answer means.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, Self, TypeVar

import grpc
import grpc.aio

from penstock.kernel.errors import (
    AlreadyClosed,
    Compacted,
    ConnectionLost,
    DeadlineExceeded,
    Indeterminate,
    KeySpaceForgot,
    LeaseExpired,
    Overloaded,
    Unavailable,
)
from penstock.kernel.ids import Revision
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
from penstock.keyspace.core.transaction import Compare, Operation, ReadKey, Transaction, TransactOutcome
from penstock.keyspace.shell.etcd import messages
from penstock.keyspace.shell.etcd.endpoints import Endpoints
from penstock.keyspace.shell.etcd.failures import meaning
from penstock.keyspace.shell.etcd.messages import Header, RangePage
from penstock.keyspace.shell.etcd.options import EtcdOptions
from penstock.keyspace.shell.etcd.watch import EtcdWatch

__all__ = ["EtcdKeySpace"]

R = TypeVar("R")

_RANGE: Final = "/etcdserverpb.KV/Range"
_TXN: Final = "/etcdserverpb.KV/Txn"
_COMPACT: Final = "/etcdserverpb.KV/Compact"
_WATCH: Final = "/etcdserverpb.Watch/Watch"
_GRANT: Final = "/etcdserverpb.Lease/LeaseGrant"
_REVOKE: Final = "/etcdserverpb.Lease/LeaseRevoke"
_KEEP_ALIVE: Final = "/etcdserverpb.Lease/LeaseKeepAlive"
_TIME_TO_LIVE: Final = "/etcdserverpb.Lease/LeaseTimeToLive"
_RANGE_TRIES_MAX: Final = 10
_NEEDS_LEADER: Final = (("hasleader", "true"),)  # a member cut off from the others breaks the stream, and is left


class EtcdKeySpace:
    """A KeySpace in an etcd cluster. Make one with `open`."""

    def __init__(self, addresses: Sequence[str], options: EtcdOptions | None = None) -> None:
        self.options = options or EtcdOptions()
        self._endpoints = Endpoints(list(addresses), self.options)
        self._cluster_id = 0
        self._newest = NO_REVISION
        self._failure: KeySpaceForgot | None = None
        self.watches: dict[EtcdWatch, None] = {}  # which are open

    @classmethod
    async def open(cls, addresses: Sequence[str], options: EtcdOptions | None = None) -> Self:
        """Connect to a cluster by the addresses ("host:port") of some of its members."""
        keyspace = cls(addresses, options)
        try:
            await keyspace.status()
        except BaseException:
            await keyspace.close()
            raise
        return keyspace

    # Reading

    async def get(self, key: str, *, at: Revision | None = None) -> KeyValue | None:
        check_key(key)
        page = await self._page(messages.get_request(key, at))
        return page.entries[0] if page.entries else None

    async def range(self, prefix: str, *, at: Revision | None = None) -> KeySnapshot:
        check_prefix(prefix)
        if at is not None:
            return await self._read_pages(prefix, at)
        for _ in range(_RANGE_TRIES_MAX):
            with suppress(Compacted):  # it overtook us between two pages: begin again, at a newer revision
                return await self._read_pages(prefix, None)
        raise Overloaded(f"etcd is compacted faster than all keys under {prefix!r} can be read")

    async def status(self) -> KeySpaceStatus:
        page = await self._page(messages.get_request("penstock/status", None))
        return KeySpaceStatus(f"{page.header.cluster_id:x}", page.header.revision, NO_REVISION)

    def watch(self, prefix: str, start: Revision) -> AbstractAsyncContextManager[EtcdWatch]:
        check_prefix(prefix)
        return EtcdWatch(self, prefix, start)

    async def _read_pages(self, prefix: str, at: Revision | None) -> KeySnapshot:
        """Read all pages at the revision of the first."""
        entries: list[KeyValue] = []
        revision, last_key, has_more = at, b"", True
        while has_more:
            page = await self._page(messages.range_request(prefix, revision, self.options.page_keys_max, last_key))
            revision = revision or page.header.revision
            entries += page.entries
            last_key, has_more = page.last_key, page.has_more
        assert revision is not None
        return KeySnapshot(revision, tuple(entries))

    async def _page(self, request: bytes) -> RangePage:
        known = self._newest
        page = messages.read_page(await self._ask(_RANGE, request))
        self._check_header(page.header, known)
        return page

    # Writing

    async def transact(
        self, compares: Iterable[Compare] = (), then: Iterable[Operation] = (), otherwise: Iterable[Operation] = ()
    ) -> TransactOutcome:
        transaction = Transaction(tuple(compares), tuple(then), tuple(otherwise))
        check_transaction(transaction)
        changes = any(not isinstance(operation, ReadKey) for operation in transaction.then + transaction.otherwise)
        known = self._newest
        data = await self._ask(_TXN, messages.transaction_request(transaction), changes=changes)
        header, outcome = messages.read_outcome(data)
        self._check_header(header, known)
        return outcome

    async def compact(self, revision: Revision) -> None:
        with suppress(Compacted):  # then it is done already
            await self._ask(_COMPACT, messages.compaction_request(revision))

    # Leases

    async def grant_lease(self, ttl_ms: int) -> Lease:
        """etcd counts in seconds, and has a least time of its own. A grant whose answer is lost ends by itself."""
        check_lease_ms(ttl_ms)
        return messages.read_granted(await self._ask(_GRANT, messages.grant_request(-(-ttl_ms // 1_000))))

    async def keep_alive(self, lease: LeaseId) -> Lease:
        renewed = messages.read_kept(await self._retried(lambda: self._renew_once(lease)))
        if renewed is None:
            raise LeaseExpired(f"lease {lease:x} does not exist any more", lease=lease)
        return renewed

    async def revoke_lease(self, lease: LeaseId) -> None:
        await self._ask(_REVOKE, messages.lease_request(lease), changes=True)

    async def lease_status(self, lease: LeaseId) -> LeaseStatus:
        status = messages.read_time_to_live(await self._ask(_TIME_TO_LIVE, messages.time_to_live_request(lease)))
        if status is None:
            raise LeaseExpired(f"lease {lease:x} does not exist any more", lease=lease)
        return status

    async def _renew_once(self, lease: LeaseId) -> bytes:
        """A stream for one renewal. There are three in a lease's life, so keeping it open would save little."""

        async def renew(channel: grpc.aio.Channel) -> Any:
            call = channel.stream_stream(_KEEP_ALIVE)(metadata=_NEEDS_LEADER)
            try:
                await call.write(messages.lease_request(lease))
                return await call.read()
            finally:
                call.cancel()

        data = await self._call(renew, changes=False)
        if data is grpc.aio.EOF:
            raise Unavailable("etcd ended the stream before it renewed the lease")
        return bytes(data)

    # Life

    async def close(self) -> None:
        for watch in self.watches:
            watch.close()
        await self._endpoints.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._endpoints.is_closed:
            raise AlreadyClosed("the KeySpace is closed")

    # Calls

    async def open_watch(self) -> Any:
        """A new stream of the watch service."""
        self.check_open()
        channel, _ = await self._endpoints.connected()
        return channel.stream_stream(_WATCH)(metadata=_NEEDS_LEADER)

    async def _ask(self, method: str, request: bytes, *, changes: bool = False) -> bytes:
        if changes:
            self.check_open()
            return await self._ask_once(method, request, changes=True)
        return await self._retried(lambda: self._ask_once(method, request, changes=False))

    async def _ask_once(self, method: str, request: bytes, *, changes: bool) -> bytes:
        return bytes(await self._call(lambda channel: channel.unary_unary(method)(request), changes=changes))

    async def _call(self, call: Callable[[grpc.aio.Channel], Awaitable[Any]], *, changes: bool) -> Any:
        """Make one call to one endpoint, within its time limit."""
        channel, number = await self._endpoints.connected()
        try:
            async with asyncio.timeout(self.options.request_ms_max / 1000):
                return await call(channel)
        except grpc.aio.AioRpcError as error:
            meant = meaning(error, changes=changes)
            if meant.retryable or isinstance(meant, Indeterminate):
                self._endpoints.failed(number)
            raise meant from None
        except TimeoutError:
            self._endpoints.failed(number)
            kind = DeadlineExceeded if changes else Unavailable
            raise kind(f"etcd did not answer within {self.options.request_ms_max} ms") from None
        except asyncio.CancelledError:
            if not self._endpoints.is_closed or _is_task_cancelled():
                raise
            # gRPC cancels the calls of a channel which is closed, and it looks as if we had been.
            raise (ConnectionLost if changes else AlreadyClosed)("the KeySpace was closed meanwhile") from None

    async def _retried(self, ask: Callable[[], Awaitable[bytes]]) -> bytes:
        """Ask again while it may help."""
        options = self.options
        until = time.monotonic() + options.retry_ms_max / 1000
        pause_s = options.backoff_ms / 1000
        while True:
            self.check_open()
            try:
                return await ask()
            except Unavailable:
                if time.monotonic() + pause_s > until:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, options.backoff_ms_max / 1000)

    # What etcd must not do

    def check_cluster(self, header: Header) -> None:
        """Refuse an answer of another cluster than the one we began with."""
        if self._cluster_id == 0:
            self._cluster_id = header.cluster_id
        if header.cluster_id != self._cluster_id:
            self._forgot(f"cluster {header.cluster_id:x} answers, and {self._cluster_id:x} did before")

    def _check_header(self, header: Header, known: Revision) -> None:
        self.check_cluster(header)
        if header.revision < known:  # known before the request was sent, and reads are linearizable
            self._forgot(f"etcd is at revision {header.revision}, and was at {known}")
        self._newest = max(self._newest, header.revision)

    def _forgot(self, reason: str) -> None:
        self._failure = KeySpaceForgot(reason)
        raise self._failure


def _is_task_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
