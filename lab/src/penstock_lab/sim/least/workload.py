"""The journal that needs fewer than R members: brokers are passed over, rightly or not, and come back.

The world is that of `journal`; the allocator has suspicions besides. It suspects who is down or frozen soon, and now
and then who is well. A broker that it takes out stays out for a while. `sim.least.least_checks` looks: content is lost
only with every Spool that had it, and a head is lost for good only with all of its members (I2, I11, J12).
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import ClassVar

from penstock.journals.core.certify import head_key
from penstock.journals.core.replica import Replica
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.route import Assignment, Topology
from penstock.kernel.ids import MILLISECOND, Instant, NodeId
from penstock.kernel.probes import reached
from penstock.keyspace.core.records import LeaseId
from penstock.keyspace.core.transaction import DeleteKey, Transaction, is_at
from penstock_lab.sim.checkers.journal import JournalChecks
from penstock_lab.sim.faults import Swarm
from penstock_lab.sim.least.least_checks import LeastChecks
from penstock_lab.sim.least.mutants import LEAST_MUTANTS
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.workloads.journal import PROBES, JournalSettings, JournalWorkload
from penstock_lab.sim.workloads.journal_allocator import SimAllocator
from penstock_lab.sim.world import World

__all__ = ["JournalLeastWorkload"]

ALLOCATOR_MUTANTS = {
    "passes-over-anybody": "312a: a pass-over leaves one that has what the last epoch acknowledged",
}


class _Settings(JournalSettings):
    """The numbers of one seed: three brokers and R = 3, as a rule."""

    @classmethod
    def draw(cls, rng: Random) -> JournalSettings:
        drawn = JournalSettings.draw(rng)
        replication = rng.choice((3, 3, 3, 3, 4))
        return replace(
            drawn,
            replication=replication,
            least=rng.choice(range(2, replication)),
            size=replication + rng.choice((0, 0, 0, 1)),
            table_max=rng.choice((2, 3, 64)),
            hasty=rng.choice((0.0, 0.02, 0.1)),
        )


class SuspiciousAllocator(SimAllocator):
    """Passes over who cannot be reached."""

    hasty = 0.0
    passes_anybody = False
    suspect_ns = 4 * MILLISECOND

    def suspects(self, name: NodeId) -> bool:
        """Return whether others cannot reach it, or think so."""
        node = self.node.world.nodes[name]
        return not node.is_up or node.is_paused or self.node.world.rng.random() < self.hasty

    @property
    def away(self) -> dict[NodeId, Instant]:
        """Whom it took out, and until when it does not put them back: in the KeySpace, so it outlives an allocator."""
        if not hasattr(self, "_away"):
            self._away: dict[NodeId, Instant] = {}
        return self._away

    def _may_serve(self, name: NodeId, lease: LeaseId) -> bool:
        return super()._may_serve(name, lease) and self.away.get(name, Instant(0)) <= self.node.world.now

    def _has_holder(self, topology: Topology, holders: list[NodeId]) -> bool:
        """A holder that came back need not have its Spool: only a certification shows that."""
        return any(each.value and each.broker in holders for each in topology.assignments)

    def _passed_over(self, topology: Topology) -> Transaction | None:
        for name in topology.route.members:
            if self._may_pass_over(topology, name) and self.suspects(name):
                reached("journal.passed_over")
                world = self.node.world
                self.away[name] = Instant(world.now + int((5 + 60 * world.rng.random()) * MILLISECOND))
                head = is_at(head_key(self.root, self.journal), topology.head_revision)
                gone = [DeleteKey(each.key) for each in topology.assignments if each.broker == name]
                return Transaction((head, *self._unchanged(topology)), tuple(gone))
        return None

    def _may_pass_over(self, topology: Topology, name: NodeId) -> bool:
        assert topology.spec is not None
        rest = [each for each in topology.assignments if each.broker != name]
        had = {member.broker for member in topology.head.members} if topology.head is not None else set()
        takes_part = topology.head is None or any(each.value and each.broker in had for each in rest)
        return len(rest) >= topology.spec.fewest and (takes_part or self.passes_anybody)


class JournalLeastWorkload(JournalWorkload):
    """One journal on three brokers or so, of which two are enough."""

    name: ClassVar[str] = "journal-least"
    about: ClassVar[str] = "journals for which two of three are enough: suspicions, flapping, returns (decision 312)"
    mutants: ClassVar[Mapping[str, str]] = {
        **{name: mutant.rule for name, mutant in LEAST_MUTANTS.items()},
        **ALLOCATOR_MUTANTS,
    }
    probes: ClassVar[tuple[str, ...]] = (*PROBES, "journal.passed_over", "journal.member_left")
    settings_class: ClassVar[type[JournalSettings]] = _Settings
    allocator_class: ClassVar[type[SimAllocator]] = SuspiciousAllocator
    checks: LeastChecks
    allocator: SuspiciousAllocator

    def replica_of(self, mutant: str | None) -> type[Replica]:
        return LEAST_MUTANTS[mutant].replica if mutant in LEAST_MUTANTS else Replica

    def checks_of(self, settings: JournalSettings) -> JournalChecks:
        return LeastChecks(settings.replication, settings.least, self.contents)

    def setup(self, world: World, swarm: Swarm) -> list[NodeId]:
        names = super().setup(world, swarm)
        self.allocator.hasty = self.settings.hasty
        self.allocator.passes_anybody = self.mutant == "passes-over-anybody"
        self._assigned: tuple[Assignment, ...] = ()
        return names

    def _keyspace_moved(self) -> None:
        super()._keyspace_moved()
        before, topology = self._assigned, self.topology()
        self._assigned = topology.assignments
        left = [each for each in before if each.broker not in topology.route.members]
        if any(self.keyspace.store.has_lease(each.lease) for each in left):
            self._removed(topology)

    def _removed(self, topology: Topology) -> None:
        """A broker was taken out that keeps its lease. What the KeySpace knows of the others holds while they run."""
        runs = [(each, self.programs[each.broker]) for each in topology.assignments]
        if all(program.lease == each.lease and program.node.is_up for each, program in runs):
            self.checks.passed_over(topology.head, [program.replica.spool.epoch for _, program in runs])

    def wiped(self, name: NodeId) -> None:
        self.checks.wiped(name, self.programs[name].view.incarnation)

    def check(self, node: SimNode) -> None:
        super().check(node)
        program = self.programs.get(node.name)
        assert program is None or not program.set_aside, f"J11: {node.name} cannot judge its content"

    def is_lost_for_good(self) -> bool:
        head = self.topology().head
        return head is None or self.checks.is_wiped(head)

    def _calm(self) -> None:
        self.allocator.hasty = 0.0
        super()._calm()
        self.clients.crowd = replace(self.clients.crowd, resets=False)

    def finish(self) -> None:
        uploads: list[Fragment] = []
        self.checks.failed(self._views(), uploads)
