"""A KeySpace with members which come and go, items, and one allocator per member: every transaction is judged.

An item is consistent, as a journal is, when each of its assignments says which members and which primary it has. `sync`
does the work of a journal's primary: it writes that, and the present members into the head record. If none of those
members is left, it cannot: then one must return, or an operator gives up their content.
"""

from collections.abc import Callable, Sequence
from random import Random

import msgspec

from penstock.kernel.ids import Instant, Revision
from penstock.keyspace.core.allocator import (
    AllocationBatch,
    Allocator,
    Capacity,
    Demand,
    MemberId,
    Suspicions,
    suspicion_key,
)
from penstock.keyspace.core.limits import check_transaction
from penstock.keyspace.core.mirror import Mirror, MirrorEntry
from penstock.keyspace.core.records import LeaseId
from penstock.keyspace.core.store import KeyStore
from penstock.keyspace.core.transaction import Compare, DeleteKey, Operation, PutKey, Transaction, is_at

ROOT = "/test"


class JsonPolicy:
    """Items and members are JSON; consistent as journals are. `guard` is a key of each item which removals compare."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror

    def demand(self, item: MirrorEntry) -> Demand:
        demand = msgspec.json.decode(item.value, type=Demand)
        load = self._mirror.get(f"{ROOT}/loads/{item.key.rpartition('/')[2]}")
        return demand if load is None else Demand(demand.replication, float(load.value))

    def capacity(self, member: MirrorEntry) -> Capacity:
        return msgspec.json.decode(member.value, type=Capacity)

    def consistent(self, item: MirrorEntry, assignments: Sequence[MirrorEntry]) -> Sequence[bool]:
        route = route_of([entry.key for entry in assignments])
        return [all(entry.value == route for entry in assignments)] * len(assignments)

    def guards(self, item: MirrorEntry) -> Sequence[Compare]:
        key = f"{ROOT}/heads/{item.key.rpartition('/')[2]}"
        head = self._mirror.get(key)
        return [is_at(key, Revision(0) if head is None else head.stored.mod_revision)]

    def preferred(self, item: MirrorEntry) -> Sequence[str]:
        head = self._mirror.get(f"{ROOT}/heads/{item.key.rpartition('/')[2]}")
        return [] if head is None else head.value.decode().split()

    def may_pass_over(self, item: MirrorEntry, rest: Sequence[MirrorEntry], coming: int) -> bool:
        """Allow it as journals do: a synchronized member that the head names remains, and all but one member."""
        preferred = self.preferred(item)
        members = {entry.key: entry.key.rsplit("/", 1)[1].split("#", 1)[1].rpartition("#")[0] for entry in rest}
        has_it = [entry for entry in rest if entry.value and members[entry.key] in preferred]
        return (bool(has_it) or not preferred) and len(rest) + coming >= max(1, self.demand(item).replication - 1)

    def item_of(self, key: str) -> str | None:
        return key.rpartition("/")[2] if key.startswith((f"{ROOT}/heads/", f"{ROOT}/loads/")) else None


def route_of(keys: Sequence[str]) -> bytes:
    places = [key.rsplit("/", 1)[1].split("#", 1)[1] for key in sorted(keys)]
    return ",".join(place.rsplit("#", 1)[0] + ("*" if place.endswith("#0") else "") for place in places).encode()


class World:
    """The store, its leases, and what everybody may ask of it."""

    def __init__(self, *, moves_max: int = 200) -> None:
        self.store = KeyStore()
        self.leases: dict[MemberId, LeaseId] = {}
        self.moves_max = moves_max
        self.mirror = Mirror(ROOT)
        self.mirror.load(self.store.snapshot(ROOT))
        self.allocator = self._new_allocator()
        self.removed: list[str] = []  # keys of assignments which an allocator removed, and did not put elsewhere
        self.added: list[str] = []

    # What happens to a cluster

    def put(self, *operations: Operation) -> None:
        self.store.transact(Transaction(then=operations))

    def join(self, zone: str, suffix: str, limit: int) -> MemberId:
        member = MemberId(zone, suffix)
        self.leases[member] = self.store.grant(10_000, Instant(0)).id
        self.offer(member, limit)
        return member

    def offer(self, member: MemberId, limit: int, *, is_exiting: bool = False) -> None:
        value = msgspec.json.encode(Capacity(limit, is_exiting))
        self.put(PutKey(self.allocator.layout.member_key(member), value, self.leases[member]))

    def leave(self, member: MemberId) -> None:
        """End its lease, and all its assignments with it."""
        self.store.revoke(self.leases.pop(member))

    def suspect(self, member: MemberId, *by: MemberId) -> None:
        """Some members cannot reach another."""
        for each in by:
            self.put(PutKey(suspicion_key(self.allocator.layout, str(member), str(each)), b"", self.leases[each]))

    def trust(self, member: MemberId) -> None:
        self.put(DeleteKey(f"{self.allocator.layout.suspects}{member}#", is_prefix=True))

    def away(self) -> frozenset[str]:
        layout = self.allocator.layout
        return Suspicions.of(layout, self.mirror.range(layout.suspects)).away(self.capacities())

    def item(self, name: str, replication: int, load: float = 1.0) -> None:
        self.put(PutKey(self.allocator.layout.item_key(name), msgspec.json.encode(Demand(replication, load))))

    def delete(self, name: str) -> None:
        self.put(DeleteKey(self.allocator.layout.item_key(name)), DeleteKey(f"{ROOT}/heads/{name}"))

    def measure(self, name: str, load: float) -> None:
        """Measure an item's load."""
        self.put(PutKey(f"{ROOT}/loads/{name}", str(load).encode()))

    def sync(self, *names: str) -> None:
        """The items become consistent; without names, all of them."""
        for name in names or tuple(self.routes()):
            entries = list(self.store.range(f"{ROOT}/assign/{name}#"))
            route = route_of([entry.key for entry in entries])
            stale = [entry for entry in entries if entry.value != route]
            if stale and not self.is_bereft(name):
                head = PutKey(f"{ROOT}/heads/{name}", " ".join(sorted(self.members_of(name))).encode())
                self.put(head, *(PutKey(entry.key, route, entry.lease) for entry in stale))

    def is_bereft(self, name: str) -> bool:
        head = self.store.get(f"{ROOT}/heads/{name}")
        return head is not None and not set(head.value.decode().split()) & self.members_of(name)

    def give_up(self) -> None:
        """An operator resets the heads of all items whose bytes no serving member has."""
        lost = [DeleteKey(f"{ROOT}/heads/{name}") for name in self.routes() if self.is_bereft(name)]
        if lost:
            self.put(*lost)

    # Allocating

    def fail_over(self) -> None:
        """Another process allocates, which knows what the KeySpace says and nothing else."""
        self.catch_up()
        self.allocator = self._new_allocator()

    def catch_up(self) -> None:
        applied = self.mirror.apply(self.store.changes(ROOT, self.mirror.revision))
        self.mirror.check()
        self.allocator.apply(applied.changes)
        self.allocator.check()

    def round(
        self,
        lose: Random | None = None,
        *,
        items_max: int = 50,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[AllocationBatch]:
        """Carry out one plan of the leader, except for batches that are lost on the way, or overtaken meanwhile."""
        self.catch_up()
        batches = [batch for member in self.leases for batch in self.allocator.plan(member, items_max=items_max)]
        self.allocator.check()
        for batch in batches:
            check_transaction(batch.transaction)
            if meanwhile is not None:
                meanwhile()
            is_lost = lose is not None and lose.random() < 0.3
            if is_lost or not self.judged(batch.transaction, is_late=meanwhile is not None):
                self.allocator.retry(batch)
        self.catch_up()
        return batches

    def judged(self, transaction: Transaction, *, is_late: bool = False) -> bool:
        """Do it, and assert that it was allowed. A late one may add replicas while the primary has just died."""
        before = self.assigned()
        is_consistent = {name: self.is_consistent(name) for name in self.routes()}
        succeeded = self.store.transact(transaction).succeeded
        after = self.assigned()
        for name in {name for name, _ in before.keys() | after.keys()}:
            gone = [m for item, m in before if item == name and (name, m) not in after]
            come = [m for item, m in after if item == name and (name, m) not in before]
            self.removed += [f"{name} {m}" for m in gone]
            self.added += [f"{name} {m}" for m in come]
            demand = self.demands().get(name)
            if demand is not None and set(gone) & self.away():
                assert not come, f"{name}: added and passed over at once"
                assert [1 for item, _ in after if item == name], f"{name}: all are passed over"
            elif gone and demand is not None:
                assert is_consistent[name], f"{name} was not consistent"
                assert len([m for item, m in after if item == name]) >= demand.replication, f"{name} is below R"
                assert not come, f"{name}: added and removed at once"
            for member in come:
                assert len([1 for _, m in after if m == member]) <= self.capacities()[member].limit, member
                assert not self.capacities()[member].is_exiting, member
            if (gone or come) and name in self.routes():
                slots = sorted(slot for _, slot in self.routes()[name])
                had_primary = any(item == name and slot == 0 for (item, _), slot in before.items())
                assert slots.count(0) == 1 or (is_late and not had_primary and not slots.count(0)), f"{name}: {slots}"
                assert len(set(slots)) == len(slots), f"{name}: {slots}"
        return succeeded

    def settle(self, rounds_max: int = 200, *, items_max: int = 50) -> int:
        """Rounds, each followed by what journals do, until there is nothing to do; returns how many it took."""
        for number in range(rounds_max):
            self.sync()
            if number == rounds_max // 4:
                self.give_up()
            batches = self.round(items_max=items_max)
            if not batches and self.allocator.is_settled:
                return number
        raise AssertionError(f"not settled after {rounds_max} rounds: {self.allocator.moving_items}")

    # Asking

    def routes(self) -> dict[str, list[tuple[str, int]]]:
        """Item → (member, slot)."""
        routes: dict[str, list[tuple[str, int]]] = {}
        for entry in self.store.range(f"{ROOT}/assign/"):
            place = self.allocator.layout.parse_assignment(entry.key)
            assert place is not None
            routes.setdefault(place.item, []).append((place.member, place.slot))
        return routes

    def assigned(self) -> dict[tuple[str, str], int]:
        return {(item, member): slot for item, route in self.routes().items() for member, slot in route}

    def members_of(self, name: str) -> set[str]:
        return {member for member, _ in self.routes().get(name, [])}

    def counts(self) -> dict[str, int]:
        counts = dict.fromkeys(self.capacities(), 0)
        for _, member in self.assigned():
            counts[member] += 1
        return counts

    def demands(self) -> dict[str, Demand]:
        entries = self.store.range(f"{ROOT}/items/")
        return {e.key.rpartition("/")[2]: msgspec.json.decode(e.value, type=Demand) for e in entries}

    def capacities(self) -> dict[str, Capacity]:
        entries = self.store.range(f"{ROOT}/members/")
        return {e.key.rpartition("/")[2]: msgspec.json.decode(e.value, type=Capacity) for e in entries}

    def is_consistent(self, name: str) -> bool:
        entries = list(self.store.range(f"{ROOT}/assign/{name}#"))
        return all(entry.value == route_of([e.key for e in entries]) for entry in entries)

    def _new_allocator(self) -> Allocator:
        allocator = Allocator(ROOT, JsonPolicy(self.mirror), moves_max=self.moves_max)
        allocator.load(self.mirror.range(ROOT))
        allocator.check()
        return allocator
