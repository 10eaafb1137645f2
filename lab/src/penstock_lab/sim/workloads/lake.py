"""The lake under faults: members on one queue, clients who put, read, commit, merge, reset and retry, drivers of a
sink, two garbage collectors.

The state machine and the member are the real ones; committed trees are dicts. After every record I1 to I13 of lake.md
are checked, and that no record passes a rule of protection (I14), with the queue position as the witness of
linearizability (`sim.checkers.lake`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, ClassVar

from penstock.kernel.effects import Effect, Reply, Requested
from penstock.kernel.ids import MILLISECOND, Instant, NodeId, RequestId
from penstock.kernel.machine import Machine
from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.checkpoint import dump
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.proposing.member import Member, MemberConfig
from penstock.lake.core.staging.proposing.port import (
    Build,
    BuildFailed,
    BuildMove,
    Delivered,
    Enqueue,
    Envelope,
    LookedUp,
    LookUp,
    Rebuild,
    Warn,
)
from penstock.lake.core.staging.records import CommitId, Instance, Request, StagingToken
from penstock.lake.core.staging.results import Result
from penstock_lab.sim.checkers.lake import LakeChecks
from penstock_lab.sim.disk import DiskContent
from penstock_lab.sim.faults import Atlas, Swarm
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.workloads.lake_clients import SimLakeClient
from penstock_lab.sim.workloads.lake_lookup import look_up
from penstock_lab.sim.workloads.lake_mutants import MUTANTS
from penstock_lab.sim.workloads.lake_parts import LakeParts
from penstock_lab.sim.workloads.lake_queue import QueueFaults, SimQueue
from penstock_lab.sim.workloads.lake_scripts import SCRIPTS
from penstock_lab.sim.world import World

__all__ = ["FIRST_RECORD", "LakeWorkload", "watched"]

FIRST_RECORD = r.CreateRepository(
    Request("first", 0),
    "repo",
    Instance("r1"),
    "mem://",
    "main",
    Instance("main-1"),
    StagingToken("t0"),
    CommitId("c0"),
)


class LakeWorkload:
    """Members, clients, collectors; see the module."""

    name: ClassVar[str] = "lake"
    about: ClassVar[str] = "queue-based staging: puts, reads, commits, merges, sinks and garbage (I1-I14)"
    mutants: ClassVar[Mapping[str, str]] = {name: mutant.rule for name, mutant in MUTANTS.items()}
    probes: ClassVar[tuple[str, ...]] = (
        "lake.aborts_the_dead",
        "lake.announced_again",
        "lake.bad_token",
        "lake.cancelled",
        "lake.caught_up",
        "lake.commit_too_old",
        "lake.condemned",
        "lake.copy_of_answered",
        "lake.expired",
        "lake.nothing_left",
        "lake.built_on_a_tip",
        "lake.rebuilt",
        "lake.resent",
        "lake.superseded",
        "lake.swept",
    )

    def __init__(self, *, mutant: str | None = None) -> None:
        self.parts = LakeParts()
        self.is_mutant = mutant is not None  # its own check is not asked: the world's checkers must see what it does
        if mutant is not None:
            MUTANTS[mutant].apply(self.parts)
        self.atlas = Atlas(
            down_max=2,
            may_fail_disks=False,
            may_partition=False,
            may_drop=False,
            may_duplicate=False,
            may_reorder=False,
        )
        self.safety_ns = 120 * MILLISECOND
        self.liveness_ns = 3_000 * MILLISECOND
        self.shelf = self.parts.shelf()
        self.checks = LakeChecks(self.shelf)
        self.builder = self.parts.builder(self.shelf)
        self.clients: list[SimLakeClient] = []
        self.waiting: dict[RequestId, SimLakeClient] = {}
        self.orphans: list[
            tuple[int, list[CommitId]]
        ] = []  # of each run of a collector: the epoch, commits without head
        self.is_over = False
        self._requests = 0
        self._checkpoints: dict[NodeId, Callable[[], bytes]] = {}
        self._steps = 0
        self._checked: dict[NodeId, tuple[int, int]] = {}  # the life, and the position applied, at the last check

    # setup

    def setup(self, world: World, swarm: Swarm) -> list[NodeId]:
        self.world = world
        rng = world.rng
        self.rng = rng
        self.config = MemberConfig(
            resend_ns=rng.choice((6, 15)) * MILLISECOND,
            retry_ns=MILLISECOND,
            retries_max=rng.choice((2, 8)),
            watch_ns=rng.choice((3, 6)) * MILLISECOND,
            idle_ns=10 * MILLISECOND,
            syncs_max=rng.choice((1, 2)),
        )
        kind = rng.random()
        self.check_every = 1 if kind < 0.05 else 64
        self.is_wide = kind > 0.97  # some puts have enough rows that runs and indexes are columns
        self.queue = SimQueue(world, _draw_faults(rng), self._deliver)
        self.queue.append(Envelope(None, FIRST_RECORD))
        names = [NodeId(f"m{number}") for number in range(1, rng.choice((2, 3)) + 1)]
        for name in names:
            world.add_node(name, self, clock=swarm.clock(rng)).boot()
        for script in SCRIPTS:
            for number in range(script.clients(rng)):
                self.clients.append(SimLakeClient(self, f"{script.name}{number}", script))
        for client in self.clients:
            world.after(1 + int(rng.random() * 5 * MILLISECOND), client.begin)
        world.at(Instant(self.safety_ns), self._end_of_load)
        return names

    def _end_of_load(self) -> None:
        self.is_over = True
        self.queue.calm()

    # members

    def boot(self, node: SimNode, found: DiskContent) -> tuple[Machine, Sequence[Effect]]:
        kind = watched(self.parts.machine, self.checks)
        checkpoint = self._checkpoints.get(node.name, bytes)
        machine = self.parts.load(checkpoint(), kind)
        boot = f"{node.name}.{node.run}" if self.parts.boot_ids else "boot"
        member = self.parts.member(machine, str(node.name), boot, self.config)
        run = node.run
        self.world.after(1, lambda: self.queue.follow(node, machine.applied) if node.run == run else None)
        return member, member.start(node.now)

    def perform(self, node: SimNode, effect: Effect) -> None:
        match effect:
            case Enqueue(envelope):
                self.queue.enqueue(envelope)
            case Reply(request, result):
                self._replied(request, result)
            case Build() | Rebuild() | BuildMove():
                self._later(node, lambda: self._build(node, effect))
            case LookUp():
                self._later(node, lambda: self._look_up(node, effect))
            case Warn():
                pass
            case _:
                raise AssertionError(f"unknown effect {effect}")

    def _later(self, node: SimNode, do: Any) -> None:
        """When a while has passed, if the process still lives."""
        run = node.run
        wait_ns = 1 + int(self.rng.random() * self.rng.choice((1, 1, 6, 25)) * MILLISECOND)

        def then() -> None:
            if node.run == run:
                node.when_awake(do)

        self.world.after(wait_ns, then)

    def _build(self, node: SimNode, effect: Build | Rebuild | BuildMove) -> None:
        built = None if self.rng.random() < 0.03 and not self.is_over else self.builder.run(effect)
        node.deliver(built or BuildFailed(effect.waiting, "it broke"))

    def _look_up(self, node: SimNode, effect: LookUp) -> None:
        machine = self.machine(node)
        node.deliver(LookedUp(effect.waiting, look_up(self.shelf, machine, effect.record, effect.result)))

    def _deliver(self, node: SimNode, delivered: Delivered) -> None:
        node.deliver(delivered)
        if node.is_up and self.rng.random() < 0.05:
            frozen = self.parts.freeze(self.machine(node), self.queue.cursor(node))
            self._checkpoints[node.name] = cache(frozen)  # made bytes when they are read: most never are

    def machine(self, node: SimNode) -> StagingMachine:
        assert isinstance(node.machine, Member)
        return node.machine.machine

    # clients

    def ask(self, client: SimLakeClient, body: Any, node: SimNode) -> RequestId:
        self._requests += 1
        request = RequestId(self._requests)
        self.waiting[request] = client
        node.deliver(Requested(request, body))
        return request

    def _replied(self, request: RequestId, result: Any) -> None:
        client = self.waiting.pop(request, None)
        if client is not None:
            client.replied(request, result)

    def some_member(self) -> SimNode | None:
        up = [node for node in self.world.nodes.values() if node.is_up and not node.is_paused]
        return self.rng.choice(up) if up else None

    # checks

    def check(self, node: SimNode) -> None:
        self._steps += 1
        if self._steps % self.check_every == 0 and node.machine is not None and not self.is_mutant:
            machine = self.machine(node)
            if self._checked.get(node.name) != (node.run, machine.applied):  # nothing else changes its state
                self._checked[node.name] = (node.run, machine.applied)
                machine.check()

    def is_settled(self) -> bool:
        nodes = self.world.nodes.values()
        is_idle = all(client.is_idle for client in self.clients)
        return is_idle and all(node.is_up and self.queue.has_all(node) for node in nodes) and not self._attempts()

    def _attempts(self) -> bool:
        """Attempts of proposers which died: someone must end them."""
        return any(self.machine(node).attempts for node in self.world.nodes.values())

    def finish(self) -> None:
        states = {dump(self.machine(node)) for node in self.world.nodes.values()}
        ends = {self.machine(node).applied for node in self.world.nodes.values()}
        assert len(states) == 1 or len(ends) > 1, "I8: members at one position have other bytes"
        for node in [] if self.is_mutant else self.world.nodes.values():
            self.machine(node).check()


def _draw_faults(rng: Random) -> QueueFaults:
    one = rng.choice
    return QueueFaults(
        delay_ns=one((200_000, MILLISECOND)),
        lose=one((0.0, 0.0, 0.1)),
        double=one((0.0, 0.1, 0.3)),
        late=one((0.0, 0.1)),
        redeliver=one((0.0, 0.05, 0.2)),
        skew_ns=one((0, 0, 20 * MILLISECOND)),
    )


def watched(kind: type[StagingMachine], checks: LakeChecks) -> type[StagingMachine]:
    """The machine, with every record it applies shown to the checks."""

    class Watched(kind):  # type: ignore[valid-type, misc]
        def apply(self, position: int, stamp: int, record: r.Record) -> Result | None:
            result: Result | None = super().apply(position, stamp, record)
            if result is not None:
                checks.applied(self, record, result)
            return result

    return Watched
