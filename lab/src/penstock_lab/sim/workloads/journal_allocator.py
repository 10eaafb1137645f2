"""A small allocator for the simulator: it obeys J14, and otherwise does what makes trouble.

It replaces members whose lease ended, promotes when there is no primary, prefers for a refused journal who holds its
last bytes (J5), and now and then moves the journal for no reason. It reads the store itself, but its changes are
transactions with compares like anybody's, and may come late or be lost.
"""

from collections.abc import Callable, Sequence

import msgspec

from penstock.journals.core.certify import head_key
from penstock.journals.records.head import HeadRecord
from penstock.journals.records.route import Assignment, Topology
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.effects import Effect, Event
from penstock.kernel.errors import PenstockError
from penstock.kernel.ids import MILLISECOND, Instant, NodeId
from penstock.kernel.machine import Machine
from penstock.kernel.probes import reached
from penstock.keyspace.core.records import NO_LEASE, NO_REVISION, KeyValue, LeaseId
from penstock.keyspace.core.transaction import (
    Compare,
    DeleteKey,
    PutKey,
    Transaction,
    TransactOutcome,
    is_absent,
    is_at,
)
from penstock_lab.sim.disk import DiskContent
from penstock_lab.sim.keyspace import SimulatedKeySpace
from penstock_lab.sim.node import SimNode

__all__ = ["SimAllocator"]


def _read_topology(keyspace: SimulatedKeySpace, root: str, journal: str) -> Topology:
    """A journal as the KeySpace itself has it."""
    store = keyspace.store
    item, head = store.get(f"{root}/items/{journal}"), store.get(head_key(root, journal))
    prefix = f"{root}/assign/{journal}#"
    return Topology.of(
        store.revision,
        item.create_revision if item is not None else NO_REVISION,
        None if item is None else msgspec.msgpack.decode(item.value, type=JournalSpec),
        [_assignment(entry, prefix) for entry in store.range(prefix)],
        None if head is None else msgspec.msgpack.decode(head.value, type=HeadRecord),
        head.mod_revision if head is not None else NO_REVISION,
    )


def _assignment(entry: KeyValue, prefix: str) -> Assignment:
    broker, _, slot = entry.key.removeprefix(prefix).rpartition("#")
    return Assignment(
        entry.key, NodeId(broker), int(slot), entry.create_revision, entry.mod_revision, entry.lease, entry.value
    )


class _Idle:
    def step(self, event: Event, now: Instant) -> list[Effect]:
        return []

    def check(self) -> None:
        pass


class SimAllocator:
    """The process which assigns the journal; a `Program` of the simulator."""

    def __init__(
        self, keyspace: SimulatedKeySpace, root: str, journal: str, leases: Callable[[], dict[NodeId, LeaseId]]
    ) -> None:
        self.keyspace, self.root, self.journal = keyspace, root, journal
        self.leases = leases  # the living brokers, and their leases
        self.every_ns = 3 * MILLISECOND
        self.restless = 0.0  # the chance to move the journal for no reason, each time it looks
        self._is_busy = False
        self._topology: Topology | None = None

    def boot(self, node: SimNode, found: DiskContent) -> tuple[Machine, Sequence[Effect]]:
        self.node = node
        node.world.after(0, self._look)
        return _Idle(), []

    def perform(self, node: SimNode, effect: Effect) -> None:
        raise AssertionError(effect)

    def topology(self) -> Topology:
        """Return the topology in the KeySpace; read only if something was changed."""
        if self._topology is None or self._topology.revision != self.keyspace.store.revision:
            self._topology = _read_topology(self.keyspace, self.root, self.journal)
        return self._topology

    def _look(self) -> None:
        if not self._is_busy:
            transaction = self._plan(self.topology())
            if transaction is not None:
                self._is_busy = True
                self.keyspace.transact(self.node, transaction, self._done)
        self.node.world.after(self.every_ns, self._look)

    def _done(self, result: TransactOutcome | PenstockError) -> None:
        self._is_busy = False

    def _plan(self, topology: Topology) -> Transaction | None:
        if topology.spec is None:
            return None
        if (passed := self._passed_over(topology)) is not None:
            return passed
        rng, members, desired = self.node.world.rng, topology.route.members, topology.spec.replication
        leases = {name: lease for name, lease in self.leases().items() if self._may_serve(name, lease)}
        if topology.route.primary is None and members:
            return self._promote(topology, rng.choice(members))
        candidates = [name for name in leases if name not in members]
        holders = self._holders(topology)
        if holders and not self._has_holder(topology, holders):
            back = [name for name in candidates if name in holders]
            if back and len(members) <= desired:
                return self._add(topology, rng.choice(back), leases)  # J5: it alone can end the refusal
        if len(members) < desired and candidates:
            return self._add(topology, self._best(topology, candidates), leases)
        if len(members) > desired and self._is_consistent(topology):
            reached("journal.planned_removal")
            return self._remove(topology, rng.choice(members))
        if len(members) == desired and candidates and rng.random() < self.restless:
            return self._add(topology, rng.choice(candidates), leases)
        return None

    def _may_serve(self, name: NodeId, lease: LeaseId) -> bool:
        return self.keyspace.store.has_lease(lease)

    def _passed_over(self, topology: Topology) -> Transaction | None:
        """Take a member out that others cannot reach: not where all R are needed."""
        return None

    def _has_holder(self, topology: Topology, holders: list[NodeId]) -> bool:
        """Return whether a member may have the last bytes."""
        return any(name in holders for name in topology.route.members)

    def _best(self, topology: Topology, candidates: list[NodeId]) -> NodeId:
        """J5: who is named by the head record comes first."""
        holders = [name for name in candidates if name in self._holders(topology)]
        return self.node.world.rng.choice(holders or candidates)

    def _holders(self, topology: Topology) -> list[NodeId]:
        return [member.broker for member in topology.head.members] if topology.head is not None else []

    def _add(self, topology: Topology, name: NodeId, leases: dict[NodeId, LeaseId]) -> Transaction:
        taken = {each.slot for each in topology.assignments}
        slot = next(slot for slot in range(len(taken) + 1) if slot not in taken)
        key = f"{self.root}/assign/{self.journal}#{name}#{slot}"
        assert leases[name] != NO_LEASE
        return Transaction((is_absent(key), *self._unchanged(topology)), (PutKey(key, b"", leases[name]),))

    def _promote(self, topology: Topology, name: NodeId) -> Transaction:
        mine = next(each for each in topology.assignments if each.broker == name)
        key = f"{self.root}/assign/{self.journal}#{name}#0"
        return Transaction(self._unchanged(topology), (DeleteKey(mine.key), PutKey(key, b"", mine.lease)))

    def _remove(self, topology: Topology, name: NodeId) -> Transaction:
        mine = next(each for each in topology.assignments if each.broker == name)
        head = is_at(head_key(self.root, self.journal), topology.head_revision)
        return Transaction((head, *self._unchanged(topology)), (DeleteKey(mine.key),))

    def _unchanged(self, topology: Topology) -> tuple[Compare, ...]:
        return tuple(is_at(each.key, each.mod_revision) for each in topology.assignments)

    def _is_consistent(self, topology: Topology) -> bool:
        """J14."""
        head = topology.head
        return (
            head is not None
            and head.create_revision == topology.create_revision
            and tuple(member.broker for member in head.members) == topology.route.members
            and topology.is_advertised
        )
