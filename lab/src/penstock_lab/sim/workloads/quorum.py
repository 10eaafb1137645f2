"""The quorum log under faults: nodes, operators and clients, elections, reconfigurations, snapshots and lost disks.

The cores are the ones the server runs: `quorum.node.Node` with its leader, follower and limbo, `quorum.operator`, and
the `Applier`. Around them are only shells (`quorum_host`, `quorum_operator`), customers (`quorum_clients`) and trouble
(`quorum_admin`, the nemesis). After every step `sim.checkers` looks at the whole world: I1 to I27 of quorum-log.md.
Each seed draws a mode (`quorum_modes`), because a random walk alone misses some schedules for long.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from penstock.kernel.effects import Reply
from penstock.kernel.ids import MILLISECOND, Instant, NodeId, Offset, RequestId
from penstock.kernel.probes import reached
from penstock.quorum.core.node import Node as Core
from penstock.quorum.core.operator import Elect
from penstock.quorum.records.answers import Answers
from penstock.quorum.records.entry import Barrier, Txn
from penstock.quorum.records.messages import Role
from penstock.quorum.records.metadata import Metadata, Status
from penstock_lab.sim.checkers.hosts import CheckedHost
from penstock_lab.sim.checkers.quorum import QuorumChecks
from penstock_lab.sim.faults import Atlas, Swarm
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.workloads.quorum_admin import Admin
from penstock_lab.sim.workloads.quorum_clients import Clients
from penstock_lab.sim.workloads.quorum_host import HostProgram
from penstock_lab.sim.workloads.quorum_machine import Lists
from penstock_lab.sim.workloads.quorum_modes import MODES, NEVER, Mode, Settings
from penstock_lab.sim.workloads.quorum_mutants import MUTANTS, Parts
from penstock_lab.sim.workloads.quorum_operator import MetadataCell, OperatorProgram
from penstock_lab.sim.world import World

__all__ = ["QuorumWorkload"]

PROBES = (
    # the cores
    "follower.behind",
    "node.epoch_raised_by_leader",
    "node.superseded",
    "operator.drained",
    "operator.leader_refuses",
    "operator.lost_race",
    "operator.replaces_stalled",
    "operator.take_over",
    # answers to clients
    "quorum.told_committed",
    "quorum.told_acknowledged",
    "quorum.told_below_level",
    "quorum.told_aborted",
    "quorum.told_indeterminate",
    "quorum.told_not_leader",
    "quorum.told_overloaded",
    "quorum.told_invalid",
    "quorum.told_expired",
    "quorum.answer_lost",
    "quorum.acknowledged_lost",
    "quorum.resolved_committed",
    "quorum.resolved_aborted",
    "quorum.resolved_pending",
    "quorum.resolved_not_leader",
    "quorum.resolved_expired",
    "quorum.linearizable_read",
    "quorum.local_read",
    "quorum.read_own_write",
    "quorum.wrong_read",
    # operators and changes
    "quorum.swapped",
    "quorum.expanded",
    "quorum.contracted",
    "quorum.answer_of_write_lost",
    "quorum.write_made_late",
    "quorum.operator_killed_in_election",
    "quorum.operator_killed_in_reconfiguration",
    "quorum.operator_killed_in_steady_state",
    "quorum.operator_paused",
    # logs and disks
    "quorum.truncated",
    "quorum.confirm_truncated",
    "quorum.snapshot_installed",
    "quorum.crashed_cutting",
    "quorum.leader_split_off",
    "quorum.disk_lost",
    "quorum.damaged",
    "agreement.suspected",
    "agreement.decided",
    "agreement.diverged",
    "node.diverged_leader_stepped_down",
)
LOOK_NS = 2 * MILLISECOND  # how often it is asked whether everything has settled


class QuorumWorkload:
    """One shard and everybody around it."""

    name: ClassVar[str] = "quorum"
    about: ClassVar[str] = "the quorum log: elections, limbo, reconfigurations, snapshots, operators (I1 to I27)"
    mutants: ClassVar[Mapping[str, str]] = {name: mutant.rule for name, mutant in MUTANTS.items()}
    probes: ClassVar[tuple[str, ...]] = PROBES

    def __init__(self, *, mutant: str | None = None, mode: Mode | None = None) -> None:
        self.mode = mode
        self.mutant = mutant
        self.parts = Parts()
        if mutant is not None:
            MUTANTS[mutant].apply(self.parts)
            self.mode = mode or next((each for each in MODES if each.name == MUTANTS[mutant].mode), None)
        self.atlas = Atlas(down_max=2)
        self.safety_ns = 200 * MILLISECOND
        self.liveness_ns = 3_000 * MILLISECOND
        self.programs: dict[NodeId, HostProgram] = {}
        self._is_calm = False
        self._look_at = 0
        self._idle_epoch = 0

    # setup

    def setup(self, world: World, swarm: Swarm) -> list[NodeId]:
        rng = world.rng
        self.world = world
        settings = self.settings = Settings.draw(rng, self.mode or rng.choice(MODES))
        self.safety_ns = settings.safety_ns
        world.note("world", "!", f"mode {settings.mode}")
        checks = self.checks = QuorumChecks(settings.node, settings.pairs.of_client_max)
        names = [NodeId(f"n{number}") for number in range(1, settings.size + settings.spares + 1)]
        for name in names:
            program = HostProgram(name, self.parts, settings.node, checks, self, settings.pairs)
            program.check_every = settings.check_every if self.mutant is None else NEVER
            self.programs[name] = program
            program.format(world.add_node(name, program, clock=swarm.clock(rng)))
        ensemble = tuple(checks.hosts[name].member for name in names[: settings.size])
        self.cell = MetadataCell(Metadata(ensemble), checks, rng)
        self.clients = Clients(world, checks, self.cell, settings, self.parts.sending)
        self.admin = Admin(world, checks, self.cell, settings)
        self.admin.nodes = names
        for number in range(1, settings.operators + 1):
            self._add_operator(NodeId(f"op{number}"), swarm)
        world.on_send = self._on_send
        for name in names:
            world.nodes[name].boot()
        for name in self.admin.operators:
            world.nodes[name].boot()
        self.clients.lose = swarm.network.drop
        self.clients.start()
        self.admin.start()
        world.at(Instant(self.safety_ns), self._calm)
        return rng.sample(names, min(len(names), settings.struck))

    def _add_operator(self, name: NodeId, swarm: Swarm) -> None:
        program = OperatorProgram(name, self.parts.operator, self.settings.operator, self.cell, self.admin)
        self.world.add_node(name, program, clock=swarm.clock(self.world.rng))
        self.admin.operators.append(name)

    def _on_send(self, source: NodeId, to: NodeId, message: Any) -> None:
        self.checks.sent(source, self.world.nodes[source].run, to, message)

    def _calm(self) -> None:
        """The faults are over. Clients continue for a while: recovered nodes must work, not only run."""
        self._is_calm = True
        self.clients.lose = 0.0
        self.admin.end()
        self.world.after(self.settings.calm_ns, self._close)

    def _close(self) -> None:
        self.clients.is_open = False

    # customers

    def booted(self, name: NodeId) -> None:
        self.clients.booted(name)

    def answered(self, answers: Answers) -> None:
        self.clients.answered(answers)

    def replied(self, host: CheckedHost, reply: Reply) -> None:
        self.clients.replied(host, reply)

    def served(self, host: CheckedHost, request: RequestId, lists: Lists, applied: Offset) -> None:
        self.clients.served(host, request, lists, applied)

    # checks

    def check(self, node: SimNode) -> None:
        self.checks.looked()
        if node.stopped_because is not None:
            assert "cannot be written" in node.stopped_because, f"{node.name} gave up: {node.stopped_because}"
        if node.name in self.programs and not self._is_calm:
            self._maybe_crash(node)

    def _maybe_crash(self, node: SimNode) -> None:
        """Some seeds crash nodes with any write, or with the rare ones: I25 at every boundary."""
        settings, rng, host = self.settings, self.world.rng, self.checks.hosts[node.name]
        is_cutting, host.is_cutting = host.is_cutting, False
        if is_cutting and rng.random() < settings.crash_cutting:
            reached("quorum.crashed_cutting")
            self.admin.kill(node, self.world.now + int(rng.random() * MILLISECOND))
        elif settings.crash_node and rng.random() < settings.crash_node:
            self.admin.kill(node, self.world.now)

    def is_settled(self) -> bool:
        """I23: everything pending is committed or answered, and every member has applied the same."""
        if self.world.now < self._look_at or self.clients.is_open:
            return False
        self._look_at = self.world.now + LOOK_NS
        for name in self.programs:  # a write begun before the faults were over may still fail
            if not self.world.nodes[name].is_up:
                self.world.nodes[name].boot()
        if not self._has_settled():
            return False
        if self.settings.has_idle_election and not self._idle_epoch:
            self._idle_epoch = self.cell.metadata.epoch
            self.admin.ask(Elect())
            return False
        if self._idle_epoch and self.cell.metadata.epoch == self._idle_epoch:
            self.admin.ask(Elect())
            return False
        return True

    def _has_settled(self) -> bool:
        metadata = self.cell.metadata
        if metadata.status is not Status.STEADY_STATE or metadata.leader is None or self.admin.lost(metadata.ensemble):
            return False
        leader = self._core(metadata.leader.node)
        if leader is None or leader.role is not Role.LEADER or leader.epoch != metadata.epoch:
            return False
        if leader.replica.commit != leader.log.end or self.clients.has_waiters():
            return False
        must_apply = self._last_fact()
        for member in metadata.ensemble:
            core = self._core(member.node)
            if core is None or core.replica.applied < must_apply or core.log.end != leader.log.end:
                return False
        return True

    def _core(self, name: NodeId) -> Core | None:
        return self.checks.hosts[name].core if self.world.nodes[name].is_up else None

    def _last_fact(self) -> int:
        """The last transaction or barrier of the committed log."""
        committed = self.checks.book.committed
        return next((at for at in range(len(committed), 0, -1) if type(committed[at - 1]) in (Txn, Barrier)), 0)

    def finish(self) -> None:
        """Every member has the committed log, the state it makes, and the same answers."""
        checks = self.checks
        checks.finish()
        for member in self.cell.metadata.ensemble:
            host = checks.hosts[member.node]
            program = self.programs[member.node]
            assert host.core is not None
            if host.record.is_damaged:
                continue
            assert host.core.divergence is None, f"{member} has diverged: {host.core.divergence}"
            checks.applies.state(host, program.applier.applied, program.lists.lists)
            for attempt in checks.answers.indeterminate:
                checks.resolutions.finish(host, attempt.entry)
        self._check_lost_and_found()

    def _check_lost_and_found(self) -> None:
        """P8: an acknowledged transaction which was lost is in the lost-and-found of who acknowledged it."""
        for attempt, member in self.checks.answers.acknowledged:
            if self.checks.book.verdict(attempt.entry) == "committed":
                continue
            reached("quorum.acknowledged_lost")
            if member in self.cell.metadata.ensemble:
                found = [entry for entry in self.programs[attempt.node].lost if isinstance(entry, Txn)]
                assert any(entry.ops == attempt.ops for entry in found), f"P8: {attempt} is lost, and nobody kept it"
