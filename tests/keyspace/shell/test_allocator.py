"""Allocators of several members on one KeySpace: one acts, another takes over, and who leaves is relieved."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.keyspace.shell.behaviours import WAIT_S
from tests.keyspace.shell.etcd.server import EtcdServer

from penstock.kernel.errors import PenstockError
from penstock.keyspace.core.allocator import Capacity, Demand, Layout, MemberId
from penstock.keyspace.core.mirror import MirrorChange, MirrorEntry
from penstock.keyspace.core.transaction import Compare, DeleteKey, Operation, PutKey, is_unchanged
from penstock.keyspace.shell.allocator import AllocatorDaemon
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.keyspace.shell.etcd.store import EtcdKeySpace
from penstock.keyspace.shell.membership import Membership
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.ports.ports import system_ports

ROOT = "/cluster"
LAYOUT = Layout(ROOT)
OPTIONS = EmbeddedOptions(poll_ms=10)

Open = Callable[[], Awaitable[KeySpace]]


class RecordPolicy:
    """Values are records; an assignment is consistent when it says so."""

    def demand(self, item: MirrorEntry) -> Demand:
        return msgspec.json.decode(item.value, type=Demand)

    def capacity(self, member: MirrorEntry) -> Capacity:
        return msgspec.json.decode(member.value, type=Capacity)

    def consistent(self, item: MirrorEntry, assignments: Sequence[MirrorEntry]) -> Sequence[bool]:
        return [entry.value == b"consistent" for entry in assignments]

    def guards(self, item: MirrorEntry) -> Sequence[Compare]:
        return ()

    def preferred(self, item: MirrorEntry) -> Sequence[str]:
        return ()

    def may_pass_over(self, item: MirrorEntry, rest: Sequence[MirrorEntry], coming: int) -> bool:
        return False

    def item_of(self, key: str) -> str | None:
        return None


class Process:
    """A member as its own process would run it: KeySpace, mirror, membership, allocator."""

    def __init__(self, keyspace: KeySpace, mirror: KeySpaceMirror, stack: AsyncExitStack) -> None:
        self.keyspace = keyspace
        self.mirror = mirror
        self.failures: list[PenstockError] = []
        self._stack = stack
        self.membership: Membership
        self.daemon: AllocatorDaemon

    async def die(self) -> None:
        """The lease ends, as if the process had been killed long enough ago."""
        await self.daemon.close()
        await self.membership.close()

    async def close(self) -> None:
        await self._stack.aclose()


class Cluster:
    """Processes on one KeySpace, and one more client which puts items and makes assignments consistent."""

    def __init__(self, open_: Open, keyspace: KeySpace, mirror: KeySpaceMirror) -> None:
        self.keyspace = keyspace
        self.mirror = mirror
        self._open = open_
        self._changed = asyncio.Event()
        mirror.observe(self._observe)
        self._synced: set[asyncio.Task[None]] = set()
        self.processes: list[Process] = []

    def _observe(self, applied: MirrorChange) -> None:
        self._changed.set()
        for change in applied.changes:
            if change.after is not None and change.key.startswith(LAYOUT.assignments) and not change.after.value:
                task = asyncio.create_task(self._sync(change.after))
                self._synced.add(task)
                task.add_done_callback(self._synced.discard)

    async def _sync(self, entry: MirrorEntry) -> None:
        await self.keyspace.transact(
            [is_unchanged(entry.stored)], [PutKey(entry.key, b"consistent", entry.stored.lease)]
        )

    async def join(self, zone: str, suffix: str, limit: int = 100) -> Process:
        stack = AsyncExitStack()
        keyspace = await stack.enter_async_context(await self._open())
        me = MemberId(zone, suffix)
        mirror = await stack.enter_async_context(await KeySpaceMirror.start(keyspace, ROOT))
        process = Process(keyspace, mirror, stack)
        process.membership = await Membership.announce(
            keyspace,
            LAYOUT.member_key(me),
            offers(limit),
            system_ports().clock.boot_ns,
            lease_ms=60_000,
            on_lost=lambda _: None,
        )
        stack.push_async_callback(process.membership.close)
        await mirror.wait_for_revision(process.membership.revision)
        process.daemon = AllocatorDaemon.start(
            keyspace, mirror, ROOT, me, RecordPolicy(), on_failure=process.failures.append
        )
        stack.push_async_callback(process.daemon.close)
        self.processes.append(process)
        return process

    async def put(self, *operations: Operation) -> None:
        await self.mirror.wait_for_revision((await self.keyspace.transact(then=operations)).revision)

    async def items(self, count: int, replication: int) -> None:
        value = msgspec.json.encode(Demand(replication))
        await self.put(*(PutKey(f"{ROOT}/items/item-{number}", value) for number in range(count)))

    def members_of(self, item: str) -> list[str]:
        entries = self.mirror.range(LAYOUT.assignments_of(item))
        return [entry.key.removeprefix(LAYOUT.assignments_of(item)).rsplit("#", 1)[0] for entry in entries]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def caught_up(self) -> None:
        """Every process sees what this client sees."""
        for process in self.processes:
            await process.mirror.wait_for_revision(self.mirror.revision)

    async def until_all_have(self, count: int, replication: int) -> None:
        await self.until(lambda: all(len(self.members_of(f"item-{n}")) == replication for n in range(count)))


def offers(limit: int, *, is_exiting: bool = False) -> bytes:
    return msgspec.json.encode(Capacity(limit, is_exiting))


@asynccontextmanager
async def cluster_on(open_: Open) -> AsyncIterator[Cluster]:
    async with await open_() as keyspace, await KeySpaceMirror.start(keyspace, ROOT) as mirror:
        cluster = Cluster(open_, keyspace, mirror)
        try:
            yield cluster
        finally:
            for process in cluster.processes:
                await process.close()
            await asyncio.gather(*cluster._synced)
            await keyspace.transact(then=[DeleteKey(ROOT, is_prefix=True)])
            assert [failure for process in cluster.processes for failure in process.failures] == []


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    server = EtcdServer(tmp_path_factory.mktemp("etcd") / "data")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(params=["embedded", "etcd"])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    async def embedded() -> KeySpace:
        return await EmbeddedKeySpace.open(tmp_path, OPTIONS)

    async def etcd() -> KeySpace:
        return await EtcdKeySpace.open([request.getfixturevalue("etcd").address])

    async with cluster_on(embedded if request.param == "embedded" else etcd) as cluster:
        yield cluster


async def test_items_get_their_members_and_a_deleted_one_loses_them(cluster: Cluster) -> None:
    await cluster.items(10, 2)
    for zone in "abc":
        await cluster.join(zone, "one")
    await cluster.until_all_have(10, 2)
    await cluster.put(DeleteKey(f"{ROOT}/items/item-3"))
    await cluster.until(lambda: cluster.members_of("item-3") == [])
    await cluster.caught_up()
    assert [process.daemon.is_leading for process in cluster.processes] == [True, False, False]


async def test_the_next_oldest_leads_when_the_leader_dies(cluster: Cluster) -> None:
    processes = [await cluster.join(zone, "one") for zone in "abc"]
    await cluster.items(10, 2)
    await cluster.until_all_have(10, 2)
    await processes[0].die()
    await cluster.until(lambda: all(cluster.members_of(f"item-{n}") == ["b#one", "c#one"] for n in range(10)))
    await cluster.caught_up()
    assert [process.daemon.is_leading for process in processes] == [False, True, False]


async def test_a_member_drains_and_nothing_is_left_on_it(cluster: Cluster) -> None:
    processes = [await cluster.join(zone, "one") for zone in "abcd"]
    await cluster.items(12, 3)
    await cluster.until_all_have(12, 3)
    await cluster.caught_up()
    leader = processes[0]
    assert leader.daemon.assigned_items
    assert await leader.daemon.drain(leader.membership, offers(100, is_exiting=True), wait_s=WAIT_S) == []
    assert leader.daemon.assigned_items == []
    await cluster.until_all_have(12, 3)


async def test_a_drain_which_nobody_can_take_over_says_what_is_left(cluster: Cluster) -> None:
    processes = [await cluster.join(zone, "one") for zone in "ab"]
    await cluster.items(2, 2)
    await cluster.until_all_have(2, 2)
    left = await processes[1].daemon.drain(processes[1].membership, offers(100, is_exiting=True), wait_s=0.3)
    assert left == ["item-0", "item-1"]
    await cluster.caught_up()
    assert all(cluster.members_of(f"item-{number}") == ["a#one", "b#one"] for number in range(2))


async def test_a_joining_member_gets_its_share(cluster: Cluster) -> None:
    await cluster.join("a", "one")
    await cluster.items(12, 1)
    await cluster.until_all_have(12, 1)
    late = await cluster.join("b", "one")
    await cluster.until(lambda: len([n for n in range(12) if cluster.members_of(f"item-{n}") == ["b#one"]]) == 6)
    await cluster.caught_up()
    assert len(late.daemon.assigned_items) == 6


async def test_compares_lost_to_others_are_made_up_for(cluster: Cluster) -> None:
    for zone in "ab":
        await cluster.join(zone, "one")
    for number in range(30):  # items change under the allocator's hands, so that plans are lost
        await cluster.items(10, 1 + number % 2)
    await cluster.until_all_have(10, 2)
