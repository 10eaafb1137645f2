"""Reads of a client: straight from the store or through a broker, its own writes included, and gaps."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from tests.journals.broker.cluster import WAIT_S, Cluster, read_all, running_cluster
from tests.journals.broker.test_fragments import LENGTH, fill, spec, until_stored

from penstock.journals.broker import fragments, replica_host
from penstock.journals.client.journal import Journals
from penstock.journals.records.fragment import CompressionCodec
from penstock.journals.records.fragment_index import Gap
from penstock.journals.records.messages import MarkRequest
from penstock.journals.records.spec import JournalSpec
from penstock.journals.storage.fragment_store import FragmentStores
from penstock.kernel.errors import DataMissing, Forbidden, InvalidArgument, StorageError, Unavailable
from penstock.kernel.ids import NodeId
from penstock.plumbing.objects import ObjectStore

ORDERS = JournalSpec(name="shop/orders", replication=2)


def direct(cluster: Cluster) -> Journals:
    return Journals(cluster.addresses, direct=True)


def objects(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "objects/shop/orders").iterdir() if path.is_file())


@pytest.mark.parametrize("codec", list(CompressionCodec))
async def test_a_direct_read_takes_nothing_of_the_store_through_the_broker(
    tmp_path: Path, codec: CompressionCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster(tmp_path, 1) as cluster, direct(cluster) as journals:
        await cluster.create(spec(codec))
        content = await fill(journals, 3)
        await until_stored(journals, 3)

        def refuse(*_: object) -> AsyncIterator[memoryview]:
            raise AssertionError("a broker reads a stored fragment for a client which can")

        monkeypatch.setattr(cluster.brokers["b1"].server.stores, "read", refuse)
        assert await read_all(journals, "shop/orders") == content
        part = [chunk async for chunk in journals.read("shop/orders", 100, end=2 * LENGTH + 50)]
        assert b"".join(bytes(chunk.content) for chunk in part) == content[100 : 2 * LENGTH + 50]
        assert [chunk.fragment.backing_store != "" for chunk in part] == [True] * len(part)


async def test_what_a_client_cannot_get_from_the_store_it_gets_from_the_broker(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, direct(cluster) as journals:
        await cluster.create(spec())
        content = await fill(journals, 3)
        await until_stored(journals, 3)

        def without_credentials(url: str) -> ObjectStore:
            raise Forbidden(f"no credentials for {url}")

        journals._reads._stores = FragmentStores(without_credentials)
        assert await read_all(journals, "shop/orders") == content
        assert len(journals._reads._unreachable) == 1


async def test_damage_in_the_store_is_told_on_both_ways(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, direct(cluster) as journals, cluster.client() as through:
        await cluster.create(spec())
        await fill(journals, 3)
        await until_stored(journals, 3)
        damaged = objects(tmp_path)[1]
        damaged.write_bytes(b"B" * (LENGTH - 1) + b"X")
        for each in (journals, through):
            with pytest.raises(StorageError, match="another sum than its name"):
                await read_all(each, "shop/orders")


async def test_a_cut_object_is_asked_of_the_broker_which_knows_no_more(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, direct(cluster) as journals:
        await cluster.create(spec(CompressionCodec.ZSTANDARD))
        await fill(journals, 1)
        await until_stored(journals, 1)
        cut = objects(tmp_path)[0]
        cut.write_bytes(cut.read_bytes()[:-4])
        with pytest.raises(StorageError):
            await read_all(journals, "shop/orders")


async def lagging(cluster: Cluster, journals: Journals) -> tuple[str, list[tuple[NodeId, object]]]:
    """Give a replica that does not learn of the last commit; and the messages that would carry it."""
    primary = cluster.primary("shop/orders")
    host = cluster.hosts("shop/orders")[primary]
    send, held = host.send, list[tuple[NodeId, object]]()

    def hold(to: NodeId, message: object) -> None:
        if isinstance(message, MarkRequest):
            held.append((to, message))
        else:
            send(to, message)

    host.send = hold
    await journals.append("shop/orders", b"mine")
    host.send = send
    return next(name for name in cluster.hosts("shop/orders") if name != primary), held


async def _answer(address: str, journal: str) -> str:
    return address


async def test_a_client_reads_its_own_writes_from_a_replica_which_lags(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 2) as cluster, cluster.client() as journals, cluster.client() as stranger:
        await cluster.create(ORDERS)
        replica, held = await lagging(cluster, journals)
        address = cluster.brokers[replica].address
        assert await read_all(stranger, "shop/orders", address=address) == b""  # it knows of nothing, and is not kept
        reading = asyncio.create_task(read_all(journals, "shop/orders", address=address))
        head = asyncio.create_task(journals.stat("shop/orders", address=address))
        journals._reads._serving = partial(_answer, address)
        known = asyncio.create_task(journals.fragments("shop/orders"))
        host = cluster.hosts("shop/orders")[replica]
        async with asyncio.timeout(WAIT_S):
            while True:
                if len(host._readers) == 3:  # all wait
                    break
                await asyncio.sleep(0.001)
        links = cluster.hosts("shop/orders")[cluster.primary("shop/orders")].links
        for to, message in held:
            links.send(to, message)
        links.flush_marks()
        assert await reading == b"mine"
        assert (await head).offset == 4
        assert [(each.begin, each.end) for each in (await known).fragments] == [(0, 4)]


async def test_a_replica_which_stays_behind_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_host, "CATCH_UP_S", 0.01)
    async with running_cluster(tmp_path, 2) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        replica, _ = await lagging(cluster, journals)
        with pytest.raises(Unavailable, match="has come to 0, not to 4: ask another one"):
            await read_all(journals, "shop/orders", address=cluster.brokers[replica].address)


async def test_fragments_are_asked_of_another_replica_if_one_stays_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_host, "CATCH_UP_S", 0.01)
    async with running_cluster(tmp_path, 2) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        replica, _ = await lagging(cluster, journals)
        asked = [cluster.brokers[name].address for name in (replica, cluster.primary("shop/orders"))]

        async def in_turn(journal: str, avoid: frozenset[str] = frozenset()) -> str:
            return asked.pop(0)

        journals._reads._serving = in_turn
        assert [(each.begin, each.end) for each in (await journals.fragments("shop/orders")).fragments] == [(0, 4)]
        assert asked == []


async def test_a_gap_is_reported_and_a_reader_who_comes_to_it_is_told(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(spec())
        content = await fill(journals, 3)
        await until_stored(journals, 3)
        assert (await journals.fragments("shop/orders")).gaps == ()
        objects(tmp_path)[1].unlink()
        await cluster.hosts("shop/orders")["b1"].fragments.refresh()
        assert (await journals.fragments("shop/orders")).gaps == (Gap(LENGTH, 2 * LENGTH),)  # type: ignore[arg-type]
        [explained] = await journals.explain("shop/orders")
        assert not isinstance(explained, Exception)
        assert any(f"No fragment has [{LENGTH}, {2 * LENGTH}): readers wait" in line for line in explained.lines)
        address = cluster.brokers["b1"].address
        with pytest.raises(DataMissing, match=f"no store and no broker has offset {LENGTH} of shop/orders") as told:
            await read_all(journals, "shop/orders", address=address)
        assert "penstock journals fragments shop/orders" in told.value.next_step
        behind = [bytes(chunk.content) async for chunk in journals.read("shop/orders", 2 * LENGTH, address=address)]
        assert b"".join(behind) == content[2 * LENGTH :]


async def test_what_another_broker_stored_since_the_last_listing_is_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test the case that a broker that held the only copy has left the journal, and stores it a moment later."""
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(spec())
        await fill(journals, 3)
        await until_stored(journals, 3)
        late = objects(tmp_path)[1]
        late.rename(tmp_path / "late")
        await cluster.hosts("shop/orders")["b1"].fragments.refresh()
        (tmp_path / "late").rename(late)
        monkeypatch.setattr(fragments, "RETRY_S", 0.0)  # the last listing was long ago
        assert (await journals.fragments("shop/orders")).gaps == ()


async def test_a_client_which_knows_one_broker_finds_whoever_serves_the_journal(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 3) as cluster:
        await cluster.create(JournalSpec(name="shop/orders", replication=1))
        stranger = next(name for name in cluster.brokers if name not in cluster.hosts("shop/orders"))
        address = cluster.brokers[stranger].address
        async with Journals([address]) as journals:
            await journals.append("shop/orders", b"redirected")
            assert await read_all(journals, "shop/orders") == b"redirected"
            assert len((await journals.fragments("shop/orders")).fragments) == 1
            with pytest.raises(Unavailable, match="does not serve shop/orders; its brokers are") as told:
                await read_all(journals, "shop/orders", address=address)
            assert told.value.details["brokers"] == [cluster.brokers[cluster.primary("shop/orders")].address]


@pytest.mark.parametrize(
    ("offset", "end", "since", "says"),
    [(-2, 0, 0, "offset -2"), (1 << 63, 0, 0, "offset"), (9, 3, 0, "end 3"), (0, -1, 0, "end -1"), (0, 0, -1, "unix")],
)
async def test_what_is_no_span_is_refused(offset: int, end: int, since: int, says: str) -> None:
    async with Journals(["127.0.0.1:1"]) as journals:
        with pytest.raises(InvalidArgument, match=says):
            await anext(journals.read("shop/orders", offset, end=end, begin_mod_time=since))
