"""Journals next to each other and after each other: nested names, and a reused name."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.journals.broker.cluster import WAIT_S, Cluster, read_all, running_cluster

from penstock.journals.client.journal import Change, Journals
from penstock.journals.records.protocol import Apply
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import InvalidArgument, LimitExceeded
from penstock.keyspace.core.transaction import DeleteKey, Operation, PutKey

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


async def apply_as_before(cluster: Cluster, *specs: JournalSpec, delete: str = "") -> None:
    """Change journals as a release does that knows no rule about nested names."""
    server = cluster.brokers["b1"].server
    items = server.catalog.layout.items
    stores = (server._config.default_store,)
    completed = [
        msgspec.structs.replace(each, fragment=msgspec.structs.replace(each.fragment, stores=stores)) for each in specs
    ]
    operations: list[Operation] = [PutKey(items + each.name, msgspec.msgpack.encode(each)) for each in completed]
    if delete:
        operations.append(DeleteKey(items + delete))
    outcome = await server.keyspace.transact(then=operations)
    await server.mirror.wait_for_revision(outcome.revision)


async def stored(journals: Journals, name: str, count: int) -> None:
    """Wait until the store has `count` fragments of a journal."""
    async with asyncio.timeout(WAIT_S):
        while True:
            found = await journals.fragments(name)
            if sum(bool(each.backing_store) for each in found.fragments) >= count:
                return
            await asyncio.sleep(0.01)  # no event says so to a client


async def test_nested_journals_of_an_older_cluster_share_nothing(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await apply_as_before(cluster, PARENT, CHILD)
        async with cluster.client() as journals:
            for spec in (PARENT, CHILD):
                await journals.append(spec.name, b"", timeout=WAIT_S)
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


async def test_a_deleted_journal_below_another_one_leaves_its_fragments_to_nobody(tmp_path: Path) -> None:
    """J-5: the other journal read the fragments of the deleted one as its own, and later removed its own."""
    async with running_cluster(tmp_path, 1) as cluster:
        await apply_as_before(cluster, PARENT, CHILD)
        async with cluster.client() as journals:
            await journals.append(CHILD.name, b"c" * 5_000, timeout=WAIT_S)
            await journals.append(PARENT.name, b"p" * 2_000, timeout=WAIT_S)
            await stored(journals, CHILD.name, 1)
            await stored(journals, PARENT.name, 1)
            await apply_as_before(cluster, delete=CHILD.name)
            await cluster.hosts(PARENT.name)["b1"].fragments.refresh()
            assert await read_all(journals, PARENT.name) == b"p" * 2_000


@pytest.mark.parametrize(("first", "second"), [(PARENT, CHILD), (CHILD, PARENT)])
async def test_no_journal_is_created_below_another(tmp_path: Path, first: JournalSpec, second: JournalSpec) -> None:
    async with running_cluster(tmp_path, 2) as cluster, cluster.client() as journals:
        with pytest.raises(InvalidArgument, match="would lie below 'shop/orders'"):
            await journals.create(first, second)
        await cluster.create(first)
        with pytest.raises(InvalidArgument, match=r"would lie below 'shop/orders'.*fragments of both"):
            await journals.create(second)
        await journals.apply([Change(delete=first.name)])
        with pytest.raises(InvalidArgument, match="would lie below 'shop/orders'"):
            await journals.create(second)  # the store may still have its fragments
        await cluster.create(first)


async def test_of_creations_at_once_above_and_below_one_wins(tmp_path: Path) -> None:
    """The door looks at a mirror; what decides is the transaction."""
    async with running_cluster(tmp_path, 2) as cluster:
        catalogs = [broker.server.catalog for broker in cluster.brokers.values()]
        for number in range(8):
            names = [f"shop/o{number}", f"shop/o{number}/eu/x"]
            creations = [
                catalog.apply(Apply((Change(upsert=JournalSpec(name=name, replication=1), expect_mod_revision=0),)))
                for catalog, name in zip(catalogs, names, strict=True)
            ]
            results = await asyncio.gather(*creations, return_exceptions=True)
            assert sorted(isinstance(each, InvalidArgument) for each in results) == [False, True], results


async def test_many_journals_are_created_in_one_apply_in_a_folder(tmp_path: Path) -> None:
    specs = [JournalSpec(name=f"a/part-{number:03}", replication=1) for number in range(100)]
    apart = [JournalSpec(name=f"b/{number:03}/part", replication=1) for number in range(100)]
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await journals.create(*specs)
        with pytest.raises(LimitExceeded, match="100 changes make 101 new folders"):
            await journals.create(*apart)
        await journals.create(*apart[:50])
        assert len(await journals.list()) == 150


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a/" + "ü" * 120 + "/" + "ö" * 120 + "/" + "é" * 120 + "/" + "x" * 140, "longer than 900 bytes"),
        ("/".join("\U00020000" * 60 for _ in range(8)), "bytes too long"),
        (".penstock/x", "reserved"),
        ("shop/abc./x", "ends in a dot"),
    ],
)
async def test_a_name_from_which_no_key_can_be_made_is_refused_at_the_door(
    tmp_path: Path, name: str, problem: str
) -> None:
    """J-6: such a name ended every broker, for good."""
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        with pytest.raises((InvalidArgument, LimitExceeded), match=problem):
            await journals.create(JournalSpec(name=name, replication=1))
        await cluster.create(PARENT)


async def test_a_journal_made_again_shows_nothing_of_its_former_life(tmp_path: Path) -> None:
    """J-19: the fragments of the former life are in the store, and were read as its own."""
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(PARENT)
        await journals.append(PARENT.name, b"o" * 5_000)
        await stored(journals, PARENT.name, 1)
        await journals.apply([Change(delete=PARENT.name)])
        await until_left(cluster)
        await cluster.create(PARENT)
        host = cluster.hosts(PARENT.name)["b1"]
        await host.fragments.refresh()
        assert await read_all(journals, PARENT.name) == b""
        new = await journals.append(PARENT.name, b"n" * 5_000)
        await stored(journals, PARENT.name, 1)
        await journals.append(PARENT.name, b"e")
        await cluster.stop("b1")
        await cluster.start("b1")
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await journals.append(PARENT.name, b"w", timeout=WAIT_S)
        found = await journals.fragments(PARENT.name)
        assert next(each.begin for each in found.fragments if each.backing_store) == new.begin
        assert not found.gaps
        assert await read_all(journals, PARENT.name) == b"n" * 5_000 + b"ew"


@pytest.mark.parametrize("fsync", [True, False])
async def test_a_changed_fsync_is_in_force_when_apply_returns(tmp_path: Path, fsync: bool) -> None:
    """J-8: it was shown, and not done, until the broker was started again."""
    async with running_cluster(tmp_path, 3) as cluster, cluster.client() as journals:
        spec = JournalSpec(name="shop/orders", replication=3, fsync=not fsync, fragment=FRAGMENT)
        await cluster.create(spec)
        await journals.append(spec.name, b"one ")
        await journals.apply([Change(upsert=msgspec.structs.replace(spec, fsync=fsync))])
        hosts = cluster.hosts(spec.name)
        assert [host.replica.spool.is_kept for host in hosts.values()] == [fsync] * 3
        for host in hosts.values():
            assert (host.files.folder / "state").exists() is fsync
        await journals.append(spec.name, b"two", timeout=WAIT_S)
        assert await read_all(journals, spec.name) == b"one two"
        if fsync:
            for name in list(cluster.brokers):
                await cluster.stop(name)
            await asyncio.gather(*(cluster.start(f"b{number}") for number in (1, 2, 3)))
            async with cluster.client() as again:
                await again.append(spec.name, b"!", timeout=WAIT_S)
                assert await read_all(again, spec.name) == b"one two!"


async def test_a_journal_made_again_at_once_keeps_its_files(tmp_path: Path) -> None:
    """The replica of the former life was still closing, and removed the folder, when the next one was open on it."""
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(PARENT)
        for number in range(10):
            await journals.append(PARENT.name, b"%d" % number, timeout=WAIT_S)
            await journals.apply([Change(delete=PARENT.name)])
            await journals.create(PARENT)
            await journals.append(PARENT.name, b"again", timeout=WAIT_S)
            files = cluster.hosts(PARENT.name)["b1"].files
            assert (files.folder / "state").exists()
            assert all(file.path.exists() for file in files._open if file.size)


async def test_a_journal_whose_assignments_have_no_keys_stops_no_other(tmp_path: Path) -> None:
    """D20: an older release accepted the name, and the allocator of every broker ended at it."""
    long = JournalSpec(name="/".join("\U00020000" * 63 for _ in range(8)), replication=1)
    async with running_cluster(tmp_path, 1) as cluster:
        await apply_as_before(cluster, long)
        await cluster.create(PARENT)
        async with cluster.client() as journals:
            await journals.append(PARENT.name, b"x")
        broker = cluster.brokers["b1"]
        assert broker.allocator._allocator is not None
        assert list(broker.allocator._allocator.aside_items) == [long.name]
        await apply_as_before(cluster, delete=long.name)
        await cluster.create(msgspec.structs.replace(CHILD, name="shop/more"))
        assert broker.allocator._allocator.aside_items == {}
