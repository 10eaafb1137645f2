"""The simulated KeySpace: linearizable and never forgetful, but far away: its clients know late, or not at all.

The store itself takes every request as one step. Only the way there and back is simulated:

- a request or its answer is lost, and the client gets `ConnectionLost`, whether it took place or not, or will later;
- a watch lags, and shows many revisions at once (a key's death and its next life in one batch);
- history is compacted under a watch; leases end although their holder believes in them (a lost session);
- a client is cut off: cut the link between its name and `KEYSPACE` in the world's network, in one or both directions.

Answers reach a process only in the life which asked. They are plain calls: hand them on with `node.deliver`, which
holds them back while the process is frozen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, TypeVar

from penstock.kernel.errors import ConnectionLost, PenstockError
from penstock.kernel.ids import MICROSECOND, MILLISECOND, Instant, NodeId, Revision
from penstock.kernel.probes import reached
from penstock.keyspace.core.limits import check_lease_ms, check_prefix, check_transaction
from penstock.keyspace.core.records import KeySnapshot, Lease, LeaseId, LeaseStatus, WatchBatch
from penstock.keyspace.core.store import KeyStore
from penstock.keyspace.core.transaction import Transaction, TransactOutcome
from penstock_lab.sim.node import SimNode

if TYPE_CHECKING:
    from penstock_lab.sim.world import World

__all__ = ["KEYSPACE", "Answer", "KeySpaceFaults", "SimulatedKeySpace", "SimulatedWatch"]

KEYSPACE = NodeId("keyspace")

R = TypeVar("R")
Answer = Callable[[R | PenstockError], None]


@dataclass(slots=True)
class KeySpaceFaults:
    """How bad the way to the KeySpace is. Chances are per request, drawn once per seed by the swarm."""

    delay_min_ns: int = 100 * MICROSECOND
    delay_mean_ns: int = 400 * MICROSECOND
    lose_request: float = 0.0
    lose_answer: float = 0.0
    late: float = 0.0  # the chance that a request takes place only after its client gave up
    timeout_ns: int = 100 * MILLISECOND  # when a client without an answer gives up
    watch_lag_ns: int = 2 * MILLISECOND  # mean
    compact_every_ns: int = 0  # 0: never
    lose_session_every_ns: int = 0  # 0: never

    @classmethod
    def draw(cls, rng: Random) -> "KeySpaceFaults":
        def some(*values: float) -> float:
            return rng.choice(values) if rng.random() < 0.5 else 0.0

        return cls(
            delay_mean_ns=rng.choice((200, 1_000, 10_000)) * MICROSECOND,
            lose_request=some(0.01, 0.1),
            lose_answer=some(0.01, 0.1),
            late=some(0.01, 0.1),
            watch_lag_ns=rng.choice((1, 20, 200)) * MILLISECOND,
            compact_every_ns=int(some(20, 100)) * MILLISECOND,
            lose_session_every_ns=int(some(100, 400)) * MILLISECOND,
        )


class SimulatedKeySpace:
    """One KeySpace of a world. Calls return at once; `answer` gets the result, or the error, later."""

    def __init__(self, world: "World", faults: KeySpaceFaults | None = None) -> None:
        self.world = world
        self.store = KeyStore("simulated")
        self.faults = faults or KeySpaceFaults()
        self._watches: list[SimulatedWatch] = []
        self._looks_at: Instant | None = None  # when leases are looked at next
        self._is_calm = False
        self.after_step: Callable[[], None] = lambda: None  # whatever changed the store: for checkers
        self._repeat(self.faults.compact_every_ns, self._compact)
        self._repeat(self.faults.lose_session_every_ns, self._lose_session)

    # Requests

    def transact(self, client: SimNode, transaction: Transaction, answer: Answer[TransactOutcome]) -> None:
        check_transaction(transaction)
        self._request(client, lambda: self.store.transact(transaction), answer)

    def read(self, client: SimNode, prefix: str, answer: Answer[KeySnapshot], *, at: Revision | None = None) -> None:
        check_prefix(prefix)
        self._request(client, lambda: self.store.snapshot(prefix, at), answer)

    def grant_lease(self, client: SimNode, ttl_ms: int, answer: Answer[Lease]) -> None:
        check_lease_ms(ttl_ms)
        self._request(client, lambda: self.store.grant(ttl_ms, self.world.now), answer)

    def keep_alive(self, client: SimNode, lease: LeaseId, answer: Answer[Lease]) -> None:
        self._request(client, lambda: self.store.keep_alive(lease, self.world.now), answer)

    def revoke_lease(self, client: SimNode, lease: LeaseId, answer: Answer[None]) -> None:
        self._request(client, lambda: self.store.revoke(lease), answer)

    def lease_status(self, client: SimNode, lease: LeaseId, answer: Answer[LeaseStatus]) -> None:
        self._request(client, lambda: self.store.lease_status(lease, self.world.now), answer)

    def compact(self, client: SimNode, revision: Revision, answer: Answer[None]) -> None:
        self._request(client, lambda: self.store.compact(revision), answer)

    def watch(self, client: SimNode, prefix: str, start: Revision, show: Answer[WatchBatch]) -> "SimulatedWatch":
        """Batches until it is stopped, its process ends, or it gets `Compacted`, which is its last."""
        check_prefix(prefix)
        watch = SimulatedWatch(self, client, prefix, start, show)
        self._watches.append(watch)
        watch.look()
        return watch

    def calm(self) -> None:
        """Begin the liveness phase: from now on the KeySpace is near and loses nothing."""
        self._is_calm = True
        self.faults = KeySpaceFaults()
        self._wake_watches()

    # The way there and back

    def _request(self, client: SimNode, do: Callable[[], R], answer: Answer[R]) -> None:
        """Carry a request to the store and its answer back. A client without an answer gets `ConnectionLost`."""
        faults, rng, run = self.faults, self.world.rng, client.run
        is_open = True

        def answer_once(result: R | PenstockError) -> None:
            nonlocal is_open
            if is_open and client.run == run and client.is_up:
                answer(result)
            is_open = False

        def arrive() -> None:
            result = self._take(do)
            if not self._is_lost(KEYSPACE, client.name, faults.lose_answer):
                self.world.after(self._delay(), lambda: answer_once(result))

        def give_up() -> None:
            answer_once(ConnectionLost("the KeySpace did not answer"))

        self.world.after(faults.timeout_ns, give_up)
        if self._is_lost(client.name, KEYSPACE, faults.lose_request):
            return
        is_late = faults.late > 0 and rng.random() < faults.late
        self.world.after(self._delay() + (faults.timeout_ns if is_late else 0), arrive)

    def _is_lost(self, source: NodeId, to: NodeId, chance: float) -> bool:
        is_lost = self.world.network.cut.get((source, to), False) or (chance > 0 and self.world.rng.random() < chance)
        if is_lost:
            reached("keyspace.lost_request" if to == KEYSPACE else "keyspace.lost_answer")
        return is_lost

    def _delay(self) -> int:
        return self.faults.delay_min_ns + int(self.world.rng.random() * 2 * self.faults.delay_mean_ns)

    def _take(self, do: Callable[[], R]) -> R | PenstockError:
        """Take one step of the store."""
        before = self.store.revision
        self._end_leases()
        try:
            result: R | PenstockError = do()
        except PenstockError as refused:
            result = refused
        self._after_step(before)
        return result

    def _after_step(self, before: Revision) -> None:
        deadline = self.store.next_deadline()
        if deadline is not None and (self._looks_at is None or deadline < self._looks_at):
            self._looks_at = deadline
            self.world.at(Instant(max(deadline, self.world.now)), self._look_at_leases)
        if self.store.revision != before:
            self.after_step()
            self.world.note(KEYSPACE, "=", f"revision {self.store.revision}")
            self._wake_watches()

    def _wake_watches(self) -> None:
        self._watches = [watch for watch in self._watches if not watch.is_over]
        for watch in self._watches:
            watch.look()

    # Leases, and random faults

    def _look_at_leases(self) -> None:
        self._looks_at = None
        before = self.store.revision
        self._end_leases()
        self._after_step(before)

    def _end_leases(self) -> None:
        for lease in self.store.end_due(self.world.now):
            reached("keyspace.lease_ended")
            self.world.note(KEYSPACE, "!", f"lease {lease:x} ended")

    def lose_session(self, lease: LeaseId) -> None:
        """A lease ends early, as if its renewals had been lost: its holder is a zombie until it learns of it."""
        before = self.store.revision
        if self.store.has_lease(lease):
            reached("keyspace.lost_session")
            self.world.note(KEYSPACE, "!", f"session of lease {lease:x} lost")
            self.store.revoke(lease)
            self._after_step(before)

    def _lose_session(self) -> None:
        leases = self.store.leases()
        if leases:
            self.lose_session(self.world.rng.choice(leases))

    def _compact(self) -> None:
        """Compact up to some kept revision; now and then up to the newest."""
        kept = self.world.rng.choice((0, 1, 5, 50))
        revision = Revision(self.store.revision - kept)
        if revision > self.store.compacted:
            reached("keyspace.compacted")
            self.world.note(KEYSPACE, "!", f"compact {revision}")
            self.store.compact(revision)

    def _repeat(self, every_ns: int, do: Callable[[], None]) -> None:
        def again() -> None:
            if not self._is_calm:
                do()
                self._repeat(every_ns, do)

        if every_ns:
            self.world.after(MILLISECOND + int(self.world.rng.random() * 2 * every_ns), again)


class SimulatedWatch:
    """A watch: a position in the store's history, which moves some time after the store did."""

    def __init__(
        self, keyspace: SimulatedKeySpace, client: SimNode, prefix: str, start: Revision, show: Answer[WatchBatch]
    ) -> None:
        self._keyspace = keyspace
        self._client = client
        self._run = client.run
        self._prefix = prefix
        self._shown = Revision(start - 1)
        self._show = show
        self._is_due = False
        self._is_stopped = False

    @property
    def is_over(self) -> bool:
        return self._is_stopped or self._client.run != self._run or not self._client.is_up

    def stop(self) -> None:
        self._is_stopped = True

    def look(self) -> None:
        """There may be something to show: show it after the lag."""
        if not self._is_due and not self.is_over:
            self._is_due = True
            lag_ns = int(self._keyspace.world.rng.random() * 2 * self._keyspace.faults.watch_lag_ns)
            self._keyspace.world.after(self._keyspace.faults.delay_min_ns + lag_ns, self._show_next)

    def _show_next(self) -> None:
        self._is_due = False
        if self.is_over:
            return
        world, store = self._keyspace.world, self._keyspace.store
        if world.network.cut.get((KEYSPACE, self._client.name), False):
            self._is_due = True
            world.after(10 * MILLISECOND, self._show_next)  # it reconnects, and continues from its position
            return
        newest = store.revision
        if newest <= self._shown:
            return
        upto = Revision(world.rng.randint(self._shown + 1, newest))
        try:
            batch = store.changes(self._prefix, self._shown, upto)
        except PenstockError as compacted:
            reached("keyspace.watch_compacted")
            self.stop()
            self._show(compacted)
            return
        self._shown = upto
        self._show(batch)
        if upto < newest:
            self.look()
