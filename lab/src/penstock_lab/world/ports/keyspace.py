"""The KeySpace of a world: the core's store, far away. Each process has a client of its own.

Faults, as `keyspace/shell/port.py` allows them: `Unavailable` (nothing was written), `Indeterminate` (it took place, or
did not, or will later), watches that lag and show many revisions at once, history compacted under a watch, leases that
end although their holder believes in them, a client cut off. etcd's guarantees page says so for each.

What always holds: the store takes each request as one step, and never forgets.
"""

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from penstock.kernel.errors import AlreadyClosed, Indeterminate, PenstockError, Unavailable
from penstock.kernel.ids import Instant, Revision
from penstock.keyspace.core.limits import check_key, check_lease_ms, check_prefix, check_transaction
from penstock.keyspace.core.records import (
    KeySnapshot,
    KeySpaceStatus,
    KeyValue,
    Lease,
    LeaseId,
    LeaseStatus,
    WatchBatch,
)
from penstock.keyspace.core.store import KeyStore
from penstock.keyspace.core.transaction import Compare, Operation, Transaction, TransactOutcome
from penstock_lab.world.ports.answers import Awaited

if TYPE_CHECKING:
    from penstock_lab.world.process import Life
    from penstock_lab.world.world import World

__all__ = ["KeySpaceClient", "KeySpaceServer", "KeySpaceTrouble"]

HOST: Final = "keyspace"
DELAY_NS: Final = (100_000, 1_500_000)
LAG_NS: Final = (100_000, 5_000_000)
TIMEOUT_NS: Final = 3_000_000_000  # when a client without an answer gives up


class KeySpaceTrouble:
    """The faults of the way to the KeySpace now."""

    def __init__(self) -> None:
        self.heal()
        # for schedules: called with the client, the request's name and the transaction. `Unavailable` is answered with
        # nothing written, another error after the step
        self.script: Callable[[str, str, Transaction | None], PenstockError | None] = lambda _c, _o, _t: None

    def heal(self) -> None:
        self.unavailable = 0.0  # chances per request
        self.indeterminate = 0.0
        self.lag_ns = LAG_NS


class KeySpaceServer:
    """The store, and its watches."""

    def __init__(self, world: "World", name: str = "simulated") -> None:
        self.world = world
        self.store = KeyStore(name)
        self.trouble = KeySpaceTrouble()
        self.rng = world.random("keyspace")
        self.watches: dict[_Watch, None] = {}
        self._is_looking = False
        self._looks_at = -1

    @property
    def now(self) -> Instant:
        return Instant(self.world.now_ns)

    def changed(self) -> None:
        """Show each watch its next changes, and look at leases when the next one ends."""
        for watch in list(self.watches):
            watch.look()
        self._look_at_leases()

    def _look_at_leases(self) -> None:
        deadline = self.store.next_deadline()
        if deadline is not None and deadline != self._looks_at:
            self._looks_at = deadline
            self.world.at(deadline, self._end_leases)

    def _end_leases(self) -> None:
        if self.store.end_due(self.now):
            self.world.note(HOST, "keyspace", "leases end")
        self._looks_at = -1
        self.changed()

    def compact(self) -> None:
        """Forget all history."""
        self.store.compact(self.store.revision)
        self.world.note(HOST, "keyspace", f"compacted at {self.store.revision}")

    def leased(self, member: str) -> list[KeyValue]:
        """Return the keys that live as long as a lease and end in a member's name."""
        return [
            entry for entry in self.store.range("/") if entry.lease and entry.key.endswith((f"#{member}", f"/{member}"))
        ]

    def end_lease_of(self, member: str) -> None:
        """End the lease of a member, although it believes in it."""
        for entry in self.leased(member):
            if self.store.has_lease(entry.lease):
                self.world.note(HOST, "keyspace", f"ends the lease of {entry.key}")
                self.store.revoke(entry.lease)
        self.changed()


class KeySpaceClient:
    """A `KeySpace` of one process."""

    def __init__(self, server: KeySpaceServer, process: "Life") -> None:
        self._server = server
        self._process = process
        self._is_closed = False

    async def get(self, key: str, *, at: Revision | None = None) -> KeyValue | None:
        check_key(key)
        store = self._server.store
        found: KeyValue | None = await self._ask(f"get {key}", lambda: store.get(key, at))
        return found

    async def range(self, prefix: str, *, at: Revision | None = None) -> KeySnapshot:
        check_prefix(prefix)
        store = self._server.store
        found: KeySnapshot = await self._ask(f"range {prefix}", lambda: store.snapshot(prefix, at))
        return found

    async def transact(
        self, compares: Iterable[Compare] = (), then: Iterable[Operation] = (), otherwise: Iterable[Operation] = ()
    ) -> TransactOutcome:
        transaction = Transaction(tuple(compares), tuple(then), tuple(otherwise))
        check_transaction(transaction)
        keys = ",".join(operation.key for operation in transaction.then)
        store = self._server.store
        outcome: TransactOutcome = await self._ask(f"transact {keys}", lambda: store.transact(transaction), transaction)
        return outcome

    def watch(self, prefix: str, start: Revision) -> "_Watch":
        check_prefix(prefix)
        return _Watch(self._server, self._process, prefix, start)

    async def grant_lease(self, ttl_ms: int) -> Lease:
        check_lease_ms(ttl_ms)
        server = self._server
        lease: Lease = await self._ask("grant", lambda: server.store.grant(ttl_ms, server.now))
        return lease

    async def keep_alive(self, lease: LeaseId) -> Lease:
        server = self._server
        kept: Lease = await self._ask("keep alive", lambda: server.store.keep_alive(lease, server.now))
        return kept

    async def revoke_lease(self, lease: LeaseId) -> None:
        server = self._server
        await self._ask("revoke", lambda: server.store.revoke(lease))

    async def lease_status(self, lease: LeaseId) -> LeaseStatus:
        server = self._server
        found: LeaseStatus = await self._ask("lease", lambda: server.store.lease_status(lease, server.now))
        return found

    async def compact(self, revision: Revision) -> None:
        server = self._server
        await self._ask("compact", lambda: server.store.compact(revision))

    async def status(self) -> KeySpaceStatus:
        found: KeySpaceStatus = await self._ask("status", self._server.store.status)
        return found

    async def close(self) -> None:
        self._is_closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask(self, what: str, do: Callable[[], Any], transaction: Transaction | None = None) -> Any:
        """Carry a request there and its answer back."""
        if self._is_closed:
            raise AlreadyClosed("this client of the KeySpace is closed")
        self._process.note("keyspace", what)
        return await _Request(self._server, self._process, what, do, transaction).begin()


class _Request:
    """A request on its way there, and back."""

    def __init__(
        self,
        server: KeySpaceServer,
        process: "Life",
        what: str,
        do: Callable[[], Any],
        transaction: Transaction | None,
    ) -> None:
        self._server = server
        self._process = process
        self._what = what
        self._do = do
        self._transaction = transaction
        self._changes = transaction is not None or what in ("grant", "revoke", "compact")
        self._answer = Awaited(process)

    def begin(self) -> "asyncio.Future[Any]":
        late = Indeterminate if self._changes else Unavailable
        self._answer.arrive(None, late("the KeySpace did not answer in time"), delay_ns=TIMEOUT_NS)
        self._carry(self._process.name, HOST, self._arrive)
        return self._answer.future

    def _carry(self, source: str, target: str, call: Callable[[], None]) -> None:
        delay_ns = self._server.rng.randint(*DELAY_NS)
        self._server.world.after(delay_ns, self._process.world_links.carry, source, target, call)

    def _back(self, result: Any, error: BaseException | None) -> None:
        self._carry(HOST, self._process.name, lambda: self._answer.arrive(result, error))

    def _arrive(self) -> None:
        server, trouble, rng = self._server, self._server.trouble, self._server.rng
        error = trouble.script(self._process.name, self._what, self._transaction)
        takes_place = not isinstance(error, Unavailable)
        if error is None:
            chance = rng.random()
            if chance < trouble.unavailable:
                error, takes_place = Unavailable("the KeySpace has no leader"), False
            elif chance > 1 - trouble.indeterminate:
                error = (Indeterminate if self._changes else Unavailable)("the KeySpace did not answer")
                takes_place = rng.random() < 0.7
        result = None
        if takes_place:
            try:
                result = self._do()
            except PenstockError as caught:
                error = error or caught
            server.changed()
        self._back(result, error)


class _Watch:
    """Changes under a prefix, late and many at once."""

    def __init__(self, server: KeySpaceServer, process: "Life", prefix: str, start: Revision) -> None:
        self._server = server
        self._process = process
        self._prefix = prefix
        self._shown = Revision(start - 1)  # handed out up to here
        self._on_its_way = False
        self._batches: list[WatchBatch | PenstockError] = []
        self._waiting: asyncio.Future[None] | None = None
        self._number = server.world.next_number()

    def __hash__(self) -> int:
        return self._number

    async def __aenter__(self) -> Self:
        self._server.watches[self] = None
        self.look()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.watches.pop(self, None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        while not self._batches:
            self._waiting = self._process.loop.create_future()
            await self._waiting
        batch = self._batches.pop(0)
        if isinstance(batch, PenstockError):
            raise batch
        return batch

    def look(self) -> None:
        """The store changed: show that, late."""
        server = self._server
        if not self._on_its_way and server.store.revision > self._shown and not self._process.is_dead:
            self._on_its_way = True
            server.world.after(
                server.rng.randint(*server.trouble.lag_ns),
                self._process.world_links.carry,
                HOST,
                self._process.name,
                self._show,
            )

    def _show(self) -> None:
        self._on_its_way = False
        if self not in self._server.watches:
            return
        batch: WatchBatch | PenstockError
        try:
            batch = self._server.store.changes(self._prefix, self._shown)
            self._shown = batch.revision
        except PenstockError as error:
            batch = error
            self._server.watches.pop(self, None)
        self._process.later(0, self._process.loop.call_soon, self._give, batch)

    def _give(self, batch: WatchBatch | PenstockError) -> None:
        self._batches.append(batch)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
