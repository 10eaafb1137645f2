"""Journals next to each other and after each other: nested names, and a reused name."""

import asyncio
from pathlib import Path

from tests.journals.broker.cluster import WAIT_S, Cluster, read_all, running_cluster

from penstock.journals.client.journal import Change
from penstock.journals.records.spec import FragmentSpec, JournalSpec

FRAGMENT = FragmentSpec(length=1 << 10, refresh_interval_ms=1_000)
PARENT = JournalSpec(name="shop/orders", replication=1, fragment=FRAGMENT, fsync=True)
CHILD = JournalSpec(name="shop/orders/eu", replication=1, fragment=FRAGMENT, fsync=True)


async def until_left(cluster: Cluster) -> None:
    """No broker has a replica of the deleted journal any more."""
    async with asyncio.timeout(WAIT_S):
        while True:
            if not cluster.hosts(PARENT.name):
                break
            await asyncio.sleep(0.001)  # it closes its files in a task of its own


async def test_a_journal_whose_name_begins_with_another_ones_shares_nothing_with_it(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.create(PARENT, CHILD)
        contents = {PARENT.name: b"p" * 3_000, CHILD.name: b"c" * 3_000}
        async with cluster.client() as journals:
            for name, content in contents.items():
                await journals.append(name, content)
                await journals.append(name, b"tail")  # rolls: the first fragment goes to the store
        await cluster.stop("b1")
        await cluster.start("b1")  # both Spools are found again
        async with cluster.client() as journals:
            for name, content in contents.items():
                await journals.append(name, b"!", timeout=WAIT_S)
                assert await read_all(journals, name) == content + b"tail!"
            await journals.apply([Change(delete=PARENT.name)])
            await until_left(cluster)
            await journals.append(CHILD.name, b"?")
            assert await read_all(journals, CHILD.name) == contents[CHILD.name] + b"tail!?"
            assert [info.spec.name for info in await journals.list()] == [CHILD.name]


async def test_a_name_which_is_used_again_goes_on_above_its_former_life(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.create(PARENT)
        async with cluster.client() as journals:
            old = await journals.append(PARENT.name, b"old")
            await journals.apply([Change(delete=PARENT.name)])
            await until_left(cluster)
        await cluster.create(PARENT)
        async with cluster.client() as journals:
            new = await journals.append(PARENT.name, b"new", timeout=WAIT_S)
            assert new.begin > old.end
            async with asyncio.timeout(10):
                chunks = [chunk async for chunk in journals.read(PARENT.name, 0)]
            assert [(chunk.offset, bytes(chunk.content)) for chunk in chunks] == [(new.begin, b"new")]
