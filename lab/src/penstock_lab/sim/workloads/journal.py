"""The journal under faults: brokers, an allocator, clients which give up, a far KeySpace, zombies, lost Spools, resets.

The core is the one the broker runs, `journal.replica.Replica`. Around it are only a shell (`journal_host`), streams,
an allocator which obeys J14, and clients. After every step `sim.checkers.journal` looks: I1 to I14; at the end the
journal must serve again (I15). Random walks prove little (journals.md): a mode aims its faults at fail-overs, when a
proposal is on its way or a sync half done.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

import msgspec

from penstock.journals.core.config import JournalConfig
from penstock.journals.core.effects import IndexRefreshed
from penstock.journals.core.pipeline import PipelinePhase
from penstock.journals.core.replica import Replica
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.messages import ProposeResponse
from penstock.journals.records.route import Topology
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.ids import MICROSECOND, MILLISECOND, Instant, NodeId, Offset, RequestId, Revision
from penstock.kernel.probes import reached
from penstock.keyspace.core.records import NO_LEASE, LeaseId
from penstock.keyspace.core.transaction import PutKey, Transaction
from penstock_lab.sim.checkers.journal import JournalChecks
from penstock_lab.sim.checkers.journal_view import JournalContents, JournalView, Passed
from penstock_lab.sim.disk import SimDisk
from penstock_lab.sim.faults import Atlas, Swarm
from penstock_lab.sim.keyspace import KeySpaceFaults, SimulatedKeySpace
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.workloads.journal_allocator import SimAllocator
from penstock_lab.sim.workloads.journal_clients import APPENDS_MAX, Crowd, JournalClients
from penstock_lab.sim.workloads.journal_host import BrokerProgram
from penstock_lab.sim.workloads.journal_mutants import MUTANTS
from penstock_lab.sim.workloads.journal_streams import Streams
from penstock_lab.sim.world import World

__all__ = ["JournalWorkload"]

ROOT, JOURNAL = "/sim", "a/journal"
ALLOCATOR = NodeId("allocator")
LOOK_NS = 2 * MILLISECOND

PROBES = (
    # the core
    "journal.preempted",
    "journal.late_request",
    "journal.late_ack",
    "journal.demoted",
    "journal.pipeline_broken",
    "journal.lost_certification",
    "journal.unknown_certification",
    "journal.fenced_own_certification",
    "journal.committed_by_sync",
    "journal.aborted_by_sync",
    # the world
    "journal.stream_broken",
    "journal.lost_lease",
    "journal.lost_spool",
    "journal.kept_spool",
    "journal.aimed",
    "journal.planned_removal",
    "journal.reset_head",
    # clients
    "journal.proxied",
    "journal.client_abort",
    "journal.txn_retried",
    "journal.told_committed_ok",
    "journal.told_aborted_register_mismatch",
    "journal.told_aborted_client_abort",
    "journal.told_aborted_pipeline_broken",
    "journal.told_aborted_deadline",
    "journal.told_aborted_limit_reached",
    "journal.told_aborted_head_lost",
    "journal.told_unknown_deadline",
    "journal.resolved_committed",
    "journal.resolved_aborted",
    "journal.resolved_pending",
)


@dataclass(frozen=True)
class JournalSettings:
    """The numbers of one seed."""

    replication: int
    size: int
    is_kept: bool
    lease_ms: int
    restless: float
    aim: float  # the chance of a fault whenever a proposal or a sync is on its way
    fragment_length: int
    limit_step: int
    in_flight_max: int
    crowd: Crowd
    calm_ns: int
    table_max: int = 64
    least: int = 0  # members that an epoch needs; 0: all
    hasty: float = 0.0  # the chance that a broker which is well is passed over, each time the allocator looks

    @classmethod
    def draw(cls, rng: Random) -> "JournalSettings":
        one = rng.choice
        replication = one((1, 2, 2, 2, 3, 3))
        crowd = Crowd(
            think_ns=one((1, 2, 4)) * MILLISECOND,
            timeout_ns=one((10, 40, 200)) * MILLISECOND,
            abort=one((0.0, 0.1, 0.3)),
            check=one((0.0, 0.1, 0.3)),
            txn=one((0.0, 0.3, 1.0)),
            astray=one((0.0, 0.3)),
            resets=rng.random() < 0.3,
        )
        return cls(
            replication=replication,
            size=replication + one((1, 2)),
            is_kept=rng.random() < 0.5,
            lease_ms=one((100, 100, 300)),
            restless=one((0.0, 0.01, 0.05)),
            aim=one((0.0, 0.01, 0.03)),
            fragment_length=one((3, 10, 1_000)),
            limit_step=one((8, 40, 10_000)),
            in_flight_max=one((1, 4, 64)),
            crowd=crowd,
            calm_ns=one((5, 30)) * MILLISECOND,
        )


def _draw_keyspace(rng: Random) -> KeySpaceFaults:
    """Far away and unreliable, but not so far that nothing is ever certified."""
    one = rng.choice
    return KeySpaceFaults(
        delay_mean_ns=one((200, 500, 2_000)) * MICROSECOND,
        lose_request=one((0.0, 0.0, 0.05)),
        lose_answer=one((0.0, 0.05, 0.2)),
        late=one((0.0, 0.05, 0.2)),
        timeout_ns=one((5, 20)) * MILLISECOND,
        watch_lag_ns=one((1, 4, 20)) * MILLISECOND,
        compact_every_ns=one((0, 50)) * MILLISECOND,
        lose_session_every_ns=one((0, 0, 60, 150)) * MILLISECOND,
    )


class Platter(SimDisk):
    """A disk which tells when its power went."""

    def crash(self) -> None:
        super().crash()
        self.on_crash()

    on_crash: Any


class JournalWorkload:
    """One journal and everybody around it."""

    name: ClassVar[str] = "journal"
    about: ClassVar[str] = "journals: appends, syncs, fail-overs, zombies, lost Spools, reset-head (I1 to I15)"
    mutants: ClassVar[Mapping[str, str]] = {name: mutant.rule for name, mutant in MUTANTS.items()}
    probes: ClassVar[tuple[str, ...]] = PROBES
    settings_class: ClassVar[type[JournalSettings]] = JournalSettings
    allocator_class: ClassVar[type[SimAllocator]] = SimAllocator

    def __init__(self, *, mutant: str | None = None) -> None:
        self.mutant = mutant
        self.replica_class = self.replica_of(mutant)
        self.atlas = Atlas(down_max=2, may_drop=False, may_duplicate=False, may_reorder=False, may_fail_disks=False)
        self.safety_ns = 300 * MILLISECOND
        self.liveness_ns = 5_000 * MILLISECOND
        self.programs: dict[NodeId, BrokerProgram] = {}
        self._is_calm = False
        self._look_at = 0
        self._committed_before = 0
        self._ended: dict[LeaseId, None] = {}  # leases which ran out under their holder

    # setup

    def replica_of(self, mutant: str | None) -> type[Replica]:
        return Replica if mutant is None else MUTANTS[mutant].replica

    def checks_of(self, settings: JournalSettings) -> JournalChecks:
        return JournalChecks(settings.replication, self.contents)

    def setup(self, world: World, swarm: Swarm) -> list[NodeId]:
        rng = world.rng
        self.world = world
        settings = self.settings = self.settings_class.draw(rng)
        self.atlas = Atlas(
            down_max=max(1, settings.replication - 1),
            may_drop=False,
            may_duplicate=False,
            may_reorder=False,
            may_fail_disks=False,
        )
        self.contents = JournalContents()
        self.checks = self.checks_of(settings)
        self.keyspace = SimulatedKeySpace(world, _draw_keyspace(rng))
        self.keyspace.after_step = self._keyspace_moved
        self.streams = Streams(world, self._arrived)
        self.config = JournalConfig(
            root=ROOT,
            limit_step=settings.limit_step,
            table_max=settings.table_max,
            in_flight_max=settings.in_flight_max,
            pulse_ns=20 * MILLISECOND,
            retry_ns=MILLISECOND,
            retry_ns_max=8 * MILLISECOND,
        )
        spec = JournalSpec(
            name=JOURNAL,
            replication=settings.replication,
            least=settings.least,
            fragment=FragmentSpec(length=settings.fragment_length),
            fsync=settings.is_kept,
        )
        self.keyspace.store.transact(
            Transaction((), (PutKey(f"{ROOT}/items/{JOURNAL}", msgspec.msgpack.encode(spec)),))
        )
        names = [NodeId(f"b{number}") for number in range(settings.size)]
        for name in names:
            self._add_broker(name, swarm)
        self.allocator = self.allocator_class(self.keyspace, ROOT, JOURNAL, self._leases)
        self.allocator.restless = settings.restless
        world.add_node(ALLOCATOR, self.allocator)
        self.clients = JournalClients(world, self.checks, self.programs, self, settings.crowd)
        for name in [*names, ALLOCATOR]:
            world.nodes[name].boot()
        self.clients.start()
        world.at(Instant(self.safety_ns), self._calm)
        world.after(10 * MILLISECOND, self._refresh)
        return names

    def _add_broker(self, name: NodeId, swarm: Swarm) -> None:
        settings = self.settings
        program = self.programs[name] = BrokerProgram(
            name,
            JOURNAL,
            self.replica_class,
            self.config,
            self.contents,
            self.keyspace,
            self.streams,
            self,
            is_kept=settings.is_kept,
            lease_ms=settings.lease_ms,
            is_checked=self.mutant is None,
        )
        node = self.world.add_node(name, program, clock=swarm.clock(self.world.rng))
        disk = Platter(self.world.rng)
        disk.on_crash = lambda: self._crashed(name)
        node.disk = disk

    def _leases(self) -> dict[NodeId, LeaseId]:
        return {name: program.lease for name, program in self.programs.items() if program.lease != NO_LEASE}

    def topology(self) -> Topology:
        return self.allocator.topology()

    def primary(self) -> NodeId | None:
        return self.topology().route.primary

    # what happens

    def _arrived(self, to: NodeId, source: NodeId, epoch: Any, message: Any) -> None:
        if self.world.nodes[to].is_up:
            self.programs[to].receive(source, epoch, message)

    def _keyspace_moved(self) -> None:
        topology = self.topology()
        if topology.head is not None and topology.head != self.checks.head:
            self.checks.certified(topology.head, self._views())
        for program in self.programs.values():
            if program.lease != NO_LEASE and not self.keyspace.store.has_lease(program.lease):
                self.checks.faults += program.lease not in self._ended
                self._ended[program.lease] = None

    def _views(self) -> list[JournalView]:
        return [program.view for name, program in self.programs.items() if self.world.nodes[name].is_up]

    def _crashed(self, name: NodeId) -> None:
        """A process ended. Unless Spools are kept, its content is gone, and others must have it."""
        self.checks.faults += 1
        self.streams.break_all(name)
        if self.settings.is_kept:
            reached("journal.kept_spool")
            return
        reached("journal.lost_spool")
        self.programs[name].uploads.clear()
        self.wiped(name)

    def wiped(self, name: NodeId) -> None:
        """A Spool is gone, with the fragments that it handed over."""
        uploads = [fragment for program in self.programs.values() for fragment in program.uploads]
        self.checks.failed(self._views(), uploads)

    def _refresh(self) -> None:
        """Brokers list the store now and then."""
        for name in self.programs:
            node = self.world.nodes[name]
            if node.is_up:
                node.deliver(IndexRefreshed(self.index_end()))
        self.world.after(10 * MILLISECOND, self._refresh)

    def index_end(self) -> Offset:
        return Offset(max(self.checks.stored, default=-1) + 1)

    # what brokers do

    def stepped(self, name: NodeId, before: JournalView, view: JournalView, passed: Passed) -> None:
        checks = self.checks
        checks.stepped(before, view, passed)
        if view == before:
            return
        others = {other.broker: other for other in self._views() if other.broker != name}
        checks.looked(view, others)
        if view.leads is not None and view.end > before.end:
            content = self.contents[view.points[-1].sum]
            if content:
                last = content[-1]
                checks.proposes(last, Offset(view.end - checks.lengths[last]), view.end, view.leads)

    def sending(self, name: NodeId, message: Any) -> None:
        if isinstance(message, ProposeResponse) and not self.settings.is_kept:
            self.checks.acknowledges(self.programs[name].view, message.epoch)

    def replied(self, name: NodeId, request: RequestId, result: Any) -> None:
        self.clients.replied(name, request, result)

    def proxied(self, request: RequestId, to: NodeId, revision: Revision) -> None:
        self.clients.proxied(request, to, revision)

    def reading(self, name: NodeId, request: RequestId) -> None:
        self.clients.reading(name, request)

    def stored(self, fragment: Fragment) -> None:
        self.checks.stored_one(fragment)

    # faults aimed at fail-overs

    def check(self, node: SimNode) -> None:
        if self._is_calm or node.name not in self.programs or not self.settings.aim or not node.is_up:
            return
        pipeline = self.programs[node.name].replica.pipeline
        is_delicate = pipeline is not None and (bool(pipeline.in_flight) or pipeline.phase is not PipelinePhase.READY)
        if is_delicate and self.world.rng.random() < self.settings.aim:
            self.world.after(0, lambda: self._strike(node, node.run))

    def _strike(self, node: SimNode, run: int) -> None:
        if node.run != run or not node.is_up or self._is_calm:
            return
        reached("journal.aimed")
        rng = self.world.rng
        down = sum(not self.world.nodes[name].is_up for name in self.programs)
        blow = rng.choice(("crash", "break", "session", "pause"))
        if blow == "crash" and down < self.atlas.down_max:
            node.crash()
            self.world.after(int(rng.random() * 40 * MILLISECOND), lambda: self._boot(node))
        elif blow == "break":
            self.streams.break_all(node.name)
        elif blow == "session":
            self.keyspace.lose_session(self.programs[node.name].lease)
        elif blow == "pause":
            node.pause()
            self.world.after(int(rng.random() * 150 * MILLISECOND), node.resume)

    def _boot(self, node: SimNode) -> None:
        if not node.is_up:
            node.boot()

    # the end

    def _calm(self) -> None:
        """The faults are over; clients continue for a while, since recovered processes must work."""
        self._is_calm = True
        self.keyspace.calm()
        self.allocator.restless = 0.0
        self._committed_before = self.clients.committed
        self.clients.crowd = Crowd(
            think_ns=20 * MILLISECOND, abort=0.0, check=0.0, barrier=0.0, txn=0.0, astray=0.0, resets=True
        )
        self.clients.appends_max = APPENDS_MAX
        self.world.after(self.settings.calm_ns, self._close)

    def _close(self) -> None:
        is_lost = self.clients.head_lost or self._says_lost()
        serves = self.clients.committed > self._committed_before and not is_lost
        if is_lost and self.is_lost_for_good():
            self.clients.reset_head()  # the operator sees the alarm
        if serves or self.clients.appends >= APPENDS_MAX:
            self.clients.is_open = False
        self.world.after(25 * MILLISECOND, self._close)

    def is_lost_for_good(self) -> bool:
        """Does nobody come back who has the last bytes?"""
        return True

    def _says_lost(self) -> bool:
        """Does the primary say that the head is lost? It does, also where no client is left who asks for anything."""
        primary = self.primary()
        if primary is None or not self.world.nodes[primary].is_up:
            return False
        return self.programs[primary].replica.lead.is_head_lost()

    def is_settled(self) -> bool:
        """I15: a certified pipeline on R members, every client answered, everything handed over is stored."""
        if self.world.now < self._look_at or self.clients.is_open:
            return False
        self._look_at = self.world.now + LOOK_NS
        topology = self.topology()
        primary = topology.route.primary
        if primary is None or len(topology.route.members) != self.settings.replication or self.clients.has_waiters():
            return False
        pipeline = self.programs[primary].replica.pipeline
        if (
            pipeline is None
            or pipeline.phase is not PipelinePhase.READY
            or any(one.uploads for one in self.programs.values())
        ):
            return False
        marks = {self.programs[name].replica.spool.mark for name in topology.route.members}
        has_served = self.clients.committed > self._committed_before or self.clients.appends >= APPENDS_MAX
        return len(marks) == 1 and has_served

    def finish(self) -> None:
        """Members agree to the byte, and nothing which was acknowledged is missing."""
        self.checks.failed(
            self._views(), [fragment for program in self.programs.values() for fragment in program.uploads]
        )
