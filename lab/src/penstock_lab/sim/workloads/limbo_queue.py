"""The limbo's queue under faults: one leader of one epoch, its followers, and clients which wait for every kind of
answer.

No election happens here; the test is of the real `LimboQueue` and the real `FollowCursors` between a lossy network and
slow, failing disks. Invariants of quorum-log.md: I15 (order and number of answers), I17 (cursors and quorum), I20
(VOLATILE is FIFO and cascades), I21 (length and bytes), and that an OK means durable on a majority.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from penstock.kernel.effects import Effect, Requested
from penstock.kernel.ids import MILLISECOND, Incarnation, Instant, NodeId, Offset, RequestId
from penstock.kernel.machine import Machine
from penstock.kernel.probes import reached
from penstock.quorum.core.limbo_queue import LimboLimits
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.member import Member, majority
from penstock_lab.sim.disk import DiskContent
from penstock_lab.sim.faults import Atlas, Swarm
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.workloads.limbo_leader import (
    Fence,
    LimboFollower,
    LimboLeader,
    LimboRefusal,
    LimboRollback,
    LimboTxn,
    Offer,
)
from penstock_lab.sim.workloads.limbo_mutants import MUTANTS
from penstock_lab.sim.world import World

__all__ = ["LimboQueueWorkload"]

LEADER = NodeId("leader")


class LimboWaiter(msgspec.Struct):
    """What the checker knows of one request."""

    offer: Offer
    fates: list[Fate]
    offset: Offset = Offset(0)


class LimboQueueWorkload:
    """Clients offer transactions in bursts; every one must be answered once, in order, and truly."""

    name: ClassVar[str] = "limbo-queue"
    about: ClassVar[str] = "the limbo's queue and the follow cursors of one epoch (I15, I17, I20, I21)"
    mutants: ClassVar[Mapping[str, str]] = {name: mutant.rule for name, mutant in MUTANTS.items()}
    probes: ClassVar[tuple[str, ...]] = (
        "limbo.volatile",
        "limbo.refused",
        "limbo.volatile_aborted",
        "limbo.rolled_back",
        "limbo.detached",
        "limbo.acknowledged",
        "limbo.frozen_with_waiters",
        "limbo.follower_rewound",
        "limbo.stale_ack",
    )

    def __init__(self, *, mutant: str | None = None) -> None:
        self.mutant = MUTANTS[mutant] if mutant is not None else None
        self.atlas = Atlas(down_max=1)
        self.safety_ns = 200 * MILLISECOND
        self.liveness_ns = 2_000 * MILLISECOND
        self.waiters: dict[RequestId, LimboWaiter] = {}
        self.log: list[LimboTxn | LimboRollback] = []  # all the leader ever appended
        self.answered_upto = Offset(0)
        self.is_offering = True
        self._checked_log = 0
        self._last_appended = RequestId(0)
        self._waiting: list[RequestId] = []  # VOLATILE after the step before

    # Setup and load

    def setup(self, world: World, swarm: Swarm) -> list[NodeId]:
        self.world = world
        rng = world.rng
        self.size = rng.choice((3, 3, 5))
        names = [LEADER, *(NodeId(f"f{n}") for n in range(1, self.size))]
        self.members = tuple(Member(name, Incarnation("i")) for name in names)
        self.limits = LimboLimits(
            length_max=rng.choice((4, 64)),
            bytes_max=rng.choice((400, 10_000)),
            volatile_length_max=rng.choice((4, 64)),
            volatile_bytes_max=rng.choice((400, 10_000)),
            async_window_bytes=rng.choice((200, 5_000)),
        )
        for name in names:
            world.add_node(name, self, clock=swarm.clock(rng)).boot()
        self.client_deadline_ns = rng.choice((10, 50, 1_000)) * MILLISECOND
        self._burst()
        if rng.random() < 0.3:
            world.after(int(rng.random() * self.safety_ns), self._fence)
        if swarm.pauses:
            world.after(int(rng.random() * self.safety_ns), self._pause_leader)
        world.at(Instant(self.safety_ns), self._end_of_load)
        return names[1:]

    def _burst(self) -> None:
        if not self.is_offering:
            return
        rng = self.world.rng
        for _ in range(rng.randint(1, 8)):
            request = RequestId(len(self.waiters) + 1)
            offer = Offer(
                size=rng.choice((1, 50, 50, 300)),
                is_sync=rng.random() < 0.7,
                timeout_ns=self.client_deadline_ns,
                rolls_back=rng.random() < 0.5,
            )
            self.waiters[request] = LimboWaiter(offer, [])
            self.world.nodes[LEADER].deliver(Requested(request, offer))
        self.world.after(MILLISECOND + int(rng.random() * 10 * MILLISECOND), self._burst)

    def _fence(self) -> None:
        self.world.nodes[LEADER].deliver(Requested(RequestId(0), Fence()))

    def _pause_leader(self) -> None:
        leader = self.world.nodes[LEADER]
        leader.pause()
        self.world.after(int(self.world.rng.random() * 50 * MILLISECOND), leader.resume)

    def _end_of_load(self) -> None:
        self.is_offering = False

    # Program

    def boot(self, node: SimNode, found: DiskContent) -> tuple[Machine, Sequence[Effect]]:
        me = next(member for member in self.members if member.node == node.name)
        if node.name == LEADER:
            leader = LimboLeader(me, self.members, self.limits, self.log)
            if self.mutant is not None:
                self.mutant.apply(leader)
            return leader, leader.start(node.now)
        follower = LimboFollower(me, LEADER, len(found.records))
        return follower, follower.start()

    def perform(self, node: SimNode, effect: Effect) -> None:
        match effect:
            case Answers():
                self._answered(effect)
            case LimboRefusal(requests):
                reached("limbo.refused")
                for request in requests:
                    self._end(request, Fate.ABORTED)
            case _:
                raise AssertionError(f"unknown effect {effect}")

    # Checks

    def _answered(self, answers: Answers) -> None:
        for request, offset in zip(answers.requests, answers.offsets, strict=True):
            self._end(request, answers.fate)
            self.waiters[request].offset = offset
        match answers.fate:
            case Fate.COMMITTED:
                self._check_committed(answers)
            case Fate.ABORTED:
                self._check_aborted(answers)
            case Fate.ACKNOWLEDGED:
                reached("limbo.acknowledged")
                self._check_order(answers)
                durable = self.world.nodes[LEADER].disk.last
                assert answers.offsets[-1] <= durable, "an async OK is durable on the leader"
            case Fate.INDETERMINATE:
                reached("limbo.detached")
            case _:
                raise AssertionError(f"nobody can be told {answers.fate} here")

    def _end(self, request: RequestId, fate: Fate) -> None:
        waiter = self.waiters[request]
        waiter.fates.append(fate)
        assert len(waiter.fates) == 1, f"I15: request {request} was answered {waiter.fates}"

    def _check_order(self, answers: Answers) -> None:
        offsets = list(answers.offsets)
        assert offsets == sorted(offsets), f"I15: OKs out of order: {offsets}"
        assert offsets[0] > self.answered_upto, f"I15: OK {offsets[0]} after {self.answered_upto}"
        self.answered_upto = offsets[-1]

    def _check_committed(self, answers: Answers) -> None:
        self._check_order(answers)
        holders = sum(self.world.nodes[member.node].disk.last >= self.answered_upto for member in self.members)
        assert holders >= majority(self.size), f"{self.answered_upto} is committed, but durable on {holders} nodes"
        assert not [offset for offset in answers.offsets if self._is_doomed(offset)], "committed, but doomed"

    def _check_aborted(self, answers: Answers) -> None:
        requests = list(answers.requests)
        assert requests == sorted(requests, reverse=True), f"aborts come newest first: {requests}"
        if answers.offsets[0] == 0:
            reached("limbo.volatile_aborted")
        else:
            reached("limbo.rolled_back")
            assert all(self._is_doomed(offset) for offset in answers.offsets), "aborted, but not doomed"

    def _is_doomed(self, offset: Offset) -> bool:
        return any(
            isinstance(record, LimboRollback) and record.first <= offset < at
            for at, record in enumerate(self.log, start=1)
        )

    def check(self, node: SimNode) -> None:
        """I20: a waiting entry is appended in its order, or aborted together with all that waited after it."""
        leader = node.machine
        if not isinstance(leader, LimboLeader):
            return
        fresh = self.log[self._checked_log :]
        self._checked_log += len(fresh)
        appended = [record.request for record in fresh if isinstance(record, LimboTxn)]
        for request in appended:
            assert request > self._last_appended, f"I20: {request} was appended behind {self._last_appended}"
            self._last_appended = request
        waiting = [entry.request for entry in leader.queue.waiting()]
        aborted = [request for request in self._waiting if request not in waiting and request not in appended]
        if aborted:
            survivors = [request for request in self._waiting if request not in aborted and request > aborted[0]]
            assert not survivors, f"I20: {aborted} were aborted, but the younger {survivors} were not"
        self._waiting = [request for request in waiting if request is not None]

    def is_settled(self) -> bool:
        return not self.is_offering and all(waiter.fates for waiter in self.waiters.values())

    def finish(self) -> None:
        for member in self.members[1:]:
            held = self.world.nodes[member.node].disk.records
            assert held == self.log[: len(held)], f"{member}'s log is no prefix of the leader's"
        appended = {record.request for record in self.log if isinstance(record, LimboTxn)}
        for request, waiter in self.waiters.items():
            if waiter.fates[0] is Fate.ABORTED and waiter.offset == 0:
                assert request not in appended, f"{request} was told that it was never appended"
