"""The port over the simulated KeySpace, so that the behaviour suite can run against it.

Waiting for an answer lets the world run. Nothing of asyncio reaches the simulator: it only takes turns with it.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from random import Random
from typing import Self, TypeVar

from penstock.kernel.effects import Effect, Event
from penstock.kernel.errors import PenstockError
from penstock.kernel.ids import MILLISECOND, Instant, NodeId, Revision
from penstock.kernel.machine import Machine
from penstock.keyspace.core.limits import check_key, check_prefix
from penstock.keyspace.core.records import (
    KeySnapshot,
    KeySpaceStatus,
    KeyValue,
    Lease,
    LeaseId,
    LeaseStatus,
    WatchBatch,
)
from penstock.keyspace.core.transaction import Compare, Operation, ReadKey, Transaction, TransactOutcome
from penstock_lab.sim.disk import DiskContent
from penstock_lab.sim.keyspace import Answer, SimulatedKeySpace
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.world import World

R = TypeVar("R")


class Idle:
    """A machine which does nothing: a process that only calls the KeySpace."""

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        return []

    def check(self) -> None:
        pass


class IdleProgram:
    def boot(self, node: SimNode, found: DiskContent) -> tuple[Machine, Sequence[Effect]]:
        return Idle(), []

    def perform(self, node: SimNode, effect: Effect) -> None:
        raise AssertionError(effect)


def idle_node(world: World) -> SimNode:
    node = world.add_node(NodeId(f"client-{len(world.nodes)}"), IdleProgram())
    node.boot()
    return node


class SimulatedClient:
    """A KeySpace whose every wait is a stretch of virtual time."""

    def __init__(self, keyspace: SimulatedKeySpace) -> None:
        self._keyspace = keyspace
        self._node = idle_node(keyspace.world)

    async def get(self, key: str, *, at: Revision | None = None) -> KeyValue | None:
        check_key(key)
        entries = (await self.range(key, at=at)).entries
        return next((entry for entry in entries if entry.key == key), None)

    async def range(self, prefix: str, *, at: Revision | None = None) -> KeySnapshot:
        return await self._ask(lambda answer: self._keyspace.read(self._node, prefix, answer, at=at))

    async def transact(
        self, compares: Iterable[Compare] = (), then: Iterable[Operation] = (), otherwise: Iterable[Operation] = ()
    ) -> TransactOutcome:
        transaction = Transaction(tuple(compares), tuple(then), tuple(otherwise))
        return await self._ask(lambda answer: self._keyspace.transact(self._node, transaction, answer))

    def watch(self, prefix: str, start: Revision) -> "WatchClient":
        check_prefix(prefix)
        return WatchClient(self._keyspace, self._node, prefix, start)

    async def grant_lease(self, ttl_ms: int) -> Lease:
        return await self._ask(lambda answer: self._keyspace.grant_lease(self._node, ttl_ms, answer))

    async def keep_alive(self, lease: LeaseId) -> Lease:
        return await self._ask(lambda answer: self._keyspace.keep_alive(self._node, lease, answer))

    async def revoke_lease(self, lease: LeaseId) -> None:
        def call(answer: Answer[None]) -> None:
            self._keyspace.revoke_lease(self._node, lease, answer)

        await self._ask(call)

    async def lease_status(self, lease: LeaseId) -> LeaseStatus:
        return await self._ask(lambda answer: self._keyspace.lease_status(self._node, lease, answer))

    async def compact(self, revision: Revision) -> None:
        def call(answer: Answer[None]) -> None:
            self._keyspace.compact(self._node, revision, answer)

        await self._ask(call)

    async def status(self) -> KeySpaceStatus:
        outcome = await self.transact(then=[ReadKey("status")])
        return KeySpaceStatus("simulated", outcome.revision, self._keyspace.store.compacted)

    async def close(self) -> None:
        self._node.crash()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask(self, call: Callable[[Answer[R]], None]) -> R:
        answers: list[R | PenstockError] = []
        call(answers.append)
        await run_until(self._keyspace.world, lambda: bool(answers))
        return _result(answers[0])


class WatchClient:
    """A watch; its changes wait in a list."""

    def __init__(self, keyspace: SimulatedKeySpace, node: SimNode, prefix: str, start: Revision) -> None:
        self._world = keyspace.world
        self._shown: list[WatchBatch | PenstockError] = []
        self._watch = keyspace.watch(node, prefix, start, self._shown.append)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        await run_until(self._world, lambda: bool(self._shown))
        return _result(self._shown.pop(0))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watch.stop()


async def run_until(world: World, done: Callable[[], bool]) -> None:
    """Let the world run in small stretches, and other tasks in between."""
    is_done = False
    while not is_done:
        await asyncio.sleep(0)
        is_done = world.run(Instant(world.now + MILLISECOND), done=done)


def _result(answer: R | PenstockError) -> R:
    if isinstance(answer, PenstockError):
        raise answer
    return answer


class SimulatedHarness:
    """One simulated KeySpace, drawn from a seed."""

    prefix = "test/"
    lease_ms = 2_000

    def __init__(self, seed: int, opened: AsyncExitStack) -> None:
        self.keyspace = SimulatedKeySpace(World(Random(seed)))
        self._opened = opened

    async def open(self) -> SimulatedClient:
        return await self._opened.enter_async_context(SimulatedClient(self.keyspace))

    async def let_time_pass(self, ms: int) -> None:
        world = self.keyspace.world
        world.run(Instant(world.now + ms * MILLISECOND))

    async def restart(self) -> None:
        """The simulated KeySpace never goes away; its clients are cut off instead, for a while."""
        self.keyspace.world.network.isolate([*self.keyspace.world.nodes], [NodeId("keyspace")])
        await self.let_time_pass(500)
        self.keyspace.world.network.heal()
