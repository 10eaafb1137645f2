"""Members ask each other, and say in the KeySpace whom they cannot reach. Real connections, in one process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from penstock.kernel.ids import Revision
from penstock.keyspace.core.allocator import Layout, MemberId, Suspicions
from penstock.keyspace.core.records import LeaseId
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.keyspace.shell.membership import Membership
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.neighbours import RING, LifeAnswers, Neighbourhood, watched
from penstock.plumbing.ports.ports import system_ports
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wire.channels import Channels
from penstock.plumbing.wire.server import Server
from penstock.plumbing.wire.service import Service
from penstock.plumbing.wiring.wiring import Wiring

LAYOUT = Layout("/test")
LEASE_MS = 60_000
SILENT_S = 0.1
WAIT_S = 30.0


class Site:
    """Members z#a, z#b and z#c in one process, on one mirror."""

    def __init__(self, keyspace: EmbeddedKeySpace, mirror: KeySpaceMirror, stack: AsyncExitStack, tasks: Tasks) -> None:
        self.keyspace = keyspace
        self.mirror = mirror
        self.stack = stack
        self.tasks = tasks
        self.servers: dict[str, Server] = {}
        self.answers: dict[str, LifeAnswers] = {}
        self.speaks_as: dict[str, LeaseId] = {}  # the lease that a member answers with
        self.neighbours: dict[str, Neighbourhood] = {}

    async def add(self, name: str) -> None:
        service, member = Service(), MemberId("z", name)
        answers = self.answers[name] = LifeAnswers(lambda: self.speaks_as.get(name))
        answers.offer(service)
        self.servers[name] = await Server.start(service)
        membership = await Membership.announce(
            self.keyspace,
            LAYOUT.member_key(member),
            self.servers[name].address.encode(),
            system_ports().clock.boot_ns,
            lease_ms=LEASE_MS,
            on_lost=lambda _: None,
        )
        self.stack.push_async_callback(membership.close)
        self.speaks_as[name] = membership.lease
        channels = Channels(Wiring().channel)
        self.stack.push_async_callback(channels.close)
        await self.mirror.wait_for_revision(membership.revision)
        found = self.neighbours[name] = Neighbourhood(
            self.keyspace,
            self.mirror,
            LAYOUT,
            member,
            membership,
            lambda entry: entry.stored.value.decode(),
            channels.get,
            self.tasks,
            silent_s=SILENT_S,
            hold_s=SILENT_S,
            work=lambda: 0,
        )
        self.stack.callback(found.close)
        found.start()

    async def end(self, name: str) -> None:
        self.answers[name].close()
        await self.servers.pop(name).close()

    @property
    def away(self) -> frozenset[str]:
        members = [entry.key[len(LAYOUT.members) :] for entry in self.mirror.range(LAYOUT.members)]
        return Suspicions.of(LAYOUT, self.mirror.range(LAYOUT.suspects)).away(members)

    async def until(self, holds: Callable[[], bool]) -> None:
        changed = asyncio.Event()
        stop = self.mirror.observe(lambda _: changed.set())
        try:
            async with asyncio.timeout(WAIT_S):
                while not holds():
                    changed.clear()
                    await changed.wait()
        finally:
            stop()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        keyspace = await stack.enter_async_context(await EmbeddedKeySpace.open(tmp_path, EmbeddedOptions(poll_ms=10)))
        mirror = await stack.enter_async_context(await KeySpaceMirror.start(keyspace, "/test/"))
        tasks = Tasks(lambda error: pytest.fail(f"a task failed: {error!r}"))
        stack.push_async_callback(tasks.close)
        site = Site(keyspace, mirror, stack, tasks)
        for name in "abc":
            await site.add(name)
        yield site
        for name in list(site.servers):
            await site.end(name)


async def test_a_member_whose_server_ends_is_away_long_before_its_lease_ends(site: Site) -> None:
    await site.end("c")
    await site.until(lambda: site.away == {"z#c"})


async def test_a_member_that_answers_for_nobody_is_away_until_it_answers_again(site: Site) -> None:
    lease, site.speaks_as["c"] = site.speaks_as["c"], LeaseId(0)  # as one that waits for its former life
    await site.until(lambda: site.away == {"z#c"})
    assert site.neighbours["a"].suspected == ["z#c"] == site.neighbours["b"].suspected
    site.speaks_as["c"] = lease
    await site.until(lambda: not site.away)


async def test_the_voices_of_a_member_go_with_the_member_that_it_suspects(site: Site) -> None:
    await site.end("c")
    await site.until(lambda: site.away == {"z#c"})
    entry = site.mirror.get(f"{LAYOUT.members}z#c")
    assert entry is not None
    await site.keyspace.revoke_lease(entry.stored.lease)
    await site.until(lambda: not list(site.mirror.range(LAYOUT.suspects)))
    assert site.mirror.revision > Revision(0)


def test_each_member_asks_the_next_ones_and_whom_somebody_suspects() -> None:
    names = [f"z#{number:02d}" for number in range(10)]
    assert watched(names, "z#08", []) == ["z#09", "z#00", "z#01", "z#02"]
    assert len(watched(names, "z#03", [])) == RING
    assert watched(names, "z#00", ["z#09", "z#02", "z#00"]) == ["z#01", "z#02", "z#03", "z#04", "z#09"]
    assert watched(["z#a"], "z#a", ["z#a"]) == []
