"""The simulated KeySpace keeps the port's law, and is as unpleasant as a real one can be."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import pytest
from tests.keyspace.shell.behaviours import KeySpaceBehaviours
from tests.lab.sim.keyspace_client import SimulatedHarness, idle_node

from penstock.kernel.errors import Compacted, ConnectionLost, LeaseExpired, PenstockError
from penstock.kernel.ids import MILLISECOND, SECOND, Instant, Revision
from penstock.kernel.probes import recording
from penstock.keyspace.core.mirror import Mirror
from penstock.keyspace.core.records import KeySnapshot, KeyValue, Lease, WatchBatch
from penstock.keyspace.core.transaction import DeleteKey, PutKey, Transaction, TransactOutcome
from penstock_lab.sim.keyspace import KEYSPACE, KeySpaceFaults, SimulatedKeySpace
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.trace import Trace
from penstock_lab.sim.world import World


@pytest.fixture
async def harness() -> AsyncIterator[SimulatedHarness]:
    async with AsyncExitStack() as opened:
        harness = SimulatedHarness(1, opened)
        yield harness
    harness.keyspace.store.check()


class TestBehaviours(KeySpaceBehaviours):
    """See behaviours.py."""


def put(key: str = "k", value: bytes = b"") -> Transaction:
    return Transaction(then=(PutKey(key, value),))


class Scene:
    """A world with a KeySpace and one client."""

    def __init__(self, seed: int = 0, faults: KeySpaceFaults | None = None) -> None:
        self.world = World(Random(seed), trace=Trace(keep=True))
        self.keyspace = SimulatedKeySpace(self.world, faults)
        self.node = idle_node(self.world)
        self.answers: list[Any] = []

    def run(self, ms: int = 1_000) -> list[Any]:
        """Let time pass; return the answers which came meanwhile."""
        self.world.run(Instant(self.world.now + ms * MILLISECOND))
        came, self.answers[:] = list(self.answers), []
        return came


def test_a_lost_request_takes_no_place_and_a_lost_answer_does() -> None:
    for faults, revision in ((KeySpaceFaults(lose_request=1.0), 1), (KeySpaceFaults(lose_answer=1.0), 2)):
        scene = Scene(faults=faults)
        scene.keyspace.transact(scene.node, put(), scene.answers.append)
        (answer,) = scene.run()
        assert isinstance(answer, ConnectionLost)
        assert scene.keyspace.store.revision == revision


def test_a_late_request_takes_place_after_its_client_gave_up() -> None:
    scene = Scene(faults=KeySpaceFaults(late=1.0))
    scene.keyspace.transact(scene.node, put(), scene.answers.append)
    (answer,) = scene.run(ms=100)
    assert isinstance(answer, ConnectionLost)
    assert scene.keyspace.store.get("k") is None
    assert scene.run() == [], "one answer each"
    assert scene.keyspace.store.get("k") is not None


def test_a_client_which_is_cut_off_hears_nothing_and_then_everything() -> None:
    scene = Scene()
    scene.keyspace.watch(scene.node, "", Revision(2), scene.answers.append)
    scene.world.network.cut_link(KEYSPACE, scene.node.name)
    other = idle_node(scene.world)
    heard: list[Any] = []
    scene.keyspace.transact(other, put("a"), heard.append)
    scene.keyspace.transact(other, put("b"), heard.append)
    assert scene.run() == []
    assert [type(answer) for answer in heard] == [TransactOutcome, TransactOutcome]
    scene.world.network.heal()
    assert sorted(change.key for batch in scene.run() for change in batch.changes) == ["a", "b"]


def test_what_an_earlier_life_asked_for_never_reaches_a_later_one() -> None:
    scene = Scene()
    scene.keyspace.transact(scene.node, put(), scene.answers.append)
    scene.keyspace.watch(scene.node, "", Revision(1), scene.answers.append)
    scene.node.crash()
    scene.node.boot()
    assert scene.run() == []
    assert scene.keyspace.store.revision == 2, "it was on its way"


def test_death_and_next_life_of_a_key_come_in_one_batch_for_some_seed() -> None:
    def batches(seed: int) -> list[WatchBatch]:
        scene = Scene(seed, KeySpaceFaults(watch_lag_ns=200 * MILLISECOND))
        shown: list[Any] = []
        scene.keyspace.watch(scene.node, "", Revision(2), shown.append)
        for transaction in (put(), Transaction(then=(DeleteKey("k"),)), put()):
            scene.keyspace.transact(scene.node, transaction, scene.answers.append)
            scene.run(ms=5)
        scene.run()
        assert [c.revision for batch in shown for c in batch.changes] == [2, 3, 4], "each once, in order"
        return shown

    assert any([c.now is None for c in batch.changes] == [True, False] for seed in range(50) for batch in batches(seed))


def test_a_watch_which_is_too_slow_is_compacted_away() -> None:
    scene = Scene(faults=KeySpaceFaults(watch_lag_ns=200 * MILLISECOND))
    shown: list[Any] = []
    scene.keyspace.watch(scene.node, "", Revision(2), shown.append)
    scene.keyspace.transact(scene.node, put(), scene.answers.append)
    scene.keyspace.transact(scene.node, put(), scene.answers.append)
    scene.run(ms=2)
    scene.keyspace.store.compact(Revision(3))
    scene.run()
    assert [type(answer) for answer in shown] == [Compacted]


def test_a_lease_ends_on_time_and_a_lost_session_before_it() -> None:
    scene = Scene()
    scene.keyspace.grant_lease(scene.node, 1_000, scene.answers.append)
    (lease,) = scene.run(ms=10)
    assert isinstance(lease, Lease)
    scene.keyspace.transact(scene.node, Transaction(then=(PutKey("k", b"", lease.id),)), scene.answers.append)
    scene.run(ms=900)
    assert scene.keyspace.store.get("k") is not None
    scene.run(ms=200)
    assert scene.keyspace.store.get("k") is None
    scene.keyspace.grant_lease(scene.node, 1_000, scene.answers.append)
    (other,) = scene.run(ms=10)
    scene.keyspace.lose_session(other.id)
    scene.keyspace.keep_alive(scene.node, other.id, scene.answers.append)
    (answer,) = scene.run(ms=10)
    assert isinstance(answer, LeaseExpired)


def clients_under_faults(seed: int, trace: Trace | None = None) -> tuple[World, SimulatedKeySpace]:
    """Three clients which put, watch and renew for two seconds, with every fault the seed has."""
    rng = Random(seed)
    world = World(rng, trace=trace)
    keyspace = SimulatedKeySpace(world, KeySpaceFaults.draw(rng))

    def busy(node: SimNode) -> None:
        def wrote(_: object) -> None:
            world.after(rng.randint(1, 20) * MILLISECOND, write)

        def write() -> None:
            keyspace.transact(node, put(f"k{rng.randint(0, 3)}"), wrote)

        def renewed(answer: object) -> None:
            if isinstance(answer, Lease):
                world.after(100 * MILLISECOND, lambda: keyspace.keep_alive(node, answer.id, renewed))

        keyspace.grant_lease(node, 300, renewed)
        keyspace.watch(node, "", Revision(1), lambda _: None)
        write()

    for _ in range(3):
        busy(idle_node(world))
    world.run(Instant(2 * SECOND))
    keyspace.store.check()
    return world, keyspace


def test_every_fault_is_reached_by_some_seed() -> None:
    seen: dict[str, None] = {}
    with recording(lambda probe: seen.setdefault(probe)):
        revisions = [clients_under_faults(seed)[1].store.revision for seed in range(20)]
    assert min(revisions) > 5
    assert sorted(seen) == [
        "keyspace.compacted",
        "keyspace.lease_ended",
        "keyspace.lost_answer",
        "keyspace.lost_request",
        "keyspace.lost_session",
        "keyspace.watch_compacted",
    ]


def test_a_seed_is_a_run() -> None:
    one, other = Trace(keep=True), Trace(keep=True)
    clients_under_faults(7, one)
    clients_under_faults(7, other)
    assert one.lines == other.lines
    assert len(one.lines) > 10


def test_calm_ends_every_fault() -> None:
    world, keyspace = clients_under_faults(3)
    keyspace.calm()
    node, answers, shown = idle_node(world), [], []  # type: ignore[var-annotated]
    keyspace.watch(node, "", Revision(keyspace.store.revision + 1), shown.append)
    for _ in range(50):
        keyspace.transact(node, put("calm"), answers.append)
    world.run(Instant(world.now + 100 * MILLISECOND))
    assert [type(answer) for answer in answers] == [TransactOutcome] * 50
    assert sum(change.key == "calm" for batch in shown for change in batch.changes) == 50


class MirroringClient:
    """A process that follows the KeySpace through a mirror, and reloads whenever it must."""

    def __init__(self, keyspace: SimulatedKeySpace, states: dict[Revision, tuple[KeyValue, ...]]) -> None:
        self._keyspace = keyspace
        self._node = idle_node(keyspace.world)
        self._states = states
        self.mirror = Mirror("k")
        self.resyncs = 0
        self._read()

    def _read(self) -> None:
        self._keyspace.read(self._node, "k", self._on_read)

    def _on_read(self, answer: KeySnapshot | PenstockError) -> None:
        if isinstance(answer, PenstockError):
            self._read()
            return
        self.resyncs += self.mirror.load(answer).is_resync
        self._check()
        self._keyspace.watch(self._node, "k", Revision(self.mirror.revision + 1), self._on_batch)

    def _on_batch(self, answer: WatchBatch | PenstockError) -> None:
        if isinstance(answer, PenstockError):
            assert isinstance(answer, Compacted)
            self._read()
            return
        self.mirror.apply(answer)
        self._check()

    def _check(self) -> None:
        self.mirror.check()
        assert tuple(entry.stored for entry in self.mirror.range("")) == self._states[self.mirror.revision]


def mirrors_under_faults(seed: int) -> list[MirroringClient]:
    rng = Random(seed)
    world = World(rng)
    keyspace = SimulatedKeySpace(world, KeySpaceFaults.draw(rng))
    states: dict[Revision, tuple[KeyValue, ...]] = {}

    def remember() -> None:
        """Every state there ever was: each change happens in a step of its own, and this looks after each."""
        states[keyspace.store.revision] = tuple(keyspace.store.range("k"))

    def write(node: SimNode) -> None:
        key = f"k{rng.randint(0, 3)}"
        transaction = put(key) if rng.random() < 0.6 else Transaction(then=(DeleteKey(key),))
        keyspace.transact(node, transaction, lambda _: None)
        world.after(rng.randint(1, 20) * MILLISECOND, lambda: write(node))

    remember()
    keyspace.after_step = remember
    mirrors = [MirroringClient(keyspace, states) for _ in range(2)]
    write(idle_node(world))
    world.run(Instant(2 * SECOND))
    keyspace.calm()
    world.run(Instant(world.now + 500 * MILLISECOND))
    for client in mirrors:
        assert client.mirror.revision >= keyspace.store.revision - 20, "it follows again when all is well"
    return mirrors


def test_a_mirror_is_always_a_state_that_was_whatever_goes_wrong() -> None:
    mirrors = [client for seed in range(15) for client in mirrors_under_faults(seed)]
    assert sum(client.resyncs for client in mirrors) > 3, "some had to read anew"
