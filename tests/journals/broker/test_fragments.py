"""Fragments of a running broker: rolled, stored, listed, read from the store, removed by retention."""

import asyncio
import os
import time
from pathlib import Path

import msgspec
import pytest
from tests.journals.broker.cluster import WAIT_S, Cluster, read_all, running_cluster

from penstock.journals.client.journal import Change, Journals
from penstock.journals.records.fragment import CompressionCodec, Fragment
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.ids import NodeId

LENGTH = 1 << 10


def spec(codec: CompressionCodec = CompressionCodec.NONE, retention_ms: int = 0) -> JournalSpec:
    fragment = FragmentSpec(
        length=LENGTH, compression_codec=codec, refresh_interval_ms=1_000, retention_ms=retention_ms
    )
    return JournalSpec(name="shop/orders", replication=1, fragment=fragment)


async def fill(journals: Journals, fragments: int) -> bytes:
    """Append enough for `fragments` full fragments, and one that is being written."""
    contents = [bytes([65 + number]) * LENGTH for number in range(fragments)] + [b"tail"]
    for content in contents:
        await journals.append("shop/orders", content, timeout=WAIT_S)
    return b"".join(contents)


async def until_stored(journals: Journals, count: int) -> list[Fragment]:
    async with asyncio.timeout(WAIT_S):
        while True:
            found = [each for each in (await journals.fragments("shop/orders")).fragments if each.backing_store]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "codec", [CompressionCodec.NONE, CompressionCodec.GZIP, CompressionCodec.ZSTANDARD, CompressionCodec.SNAPPY]
)
async def test_full_fragments_go_to_the_store_and_are_read_from_there(tmp_path: Path, codec: CompressionCodec) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(spec(codec))
        content = await fill(journals, 3)
        found = await until_stored(journals, 3)
        assert [(each.begin, each.end, each.codec) for each in found] == [
            (begin, begin + LENGTH, codec) for begin in range(0, 3 * LENGTH, LENGTH)
        ]
        host = cluster.hosts("shop/orders")["b1"]
        assert host.files.fragments() == []  # their files are gone
        assert await read_all(journals, "shop/orders") == content
        chunks = [chunk async for chunk in journals.read("shop/orders", 100, end=LENGTH + 100)]
        assert b"".join(bytes(chunk.content) for chunk in chunks) == content[100 : LENGTH + 100]
        stored = [path for path in (tmp_path / "objects" / "shop/orders").iterdir() if path.is_file()]
        assert sorted(path.name for path in stored) == [each.content_name for each in found]


@pytest.mark.parametrize("replication", [1, 3])
async def test_a_full_fragment_is_stored_without_another_append(tmp_path: Path, replication: int) -> None:
    async with running_cluster(tmp_path, 3, late_upload_ms=600_000) as cluster, cluster.client() as journals:
        await cluster.create(msgspec.structs.replace(spec(), replication=replication))
        await journals.append("shop/orders", b"a" * (LENGTH + 200), timeout=WAIT_S)
        async with asyncio.timeout(10):
            [found] = await until_stored(journals, 1)
        assert (found.begin, found.end) == (0, LENGTH + 200)
        await journals.append("shop/orders", b"b", timeout=WAIT_S)
        assert await read_all(journals, "shop/orders") == b"a" * (LENGTH + 200) + b"b"


async def age(cluster: Cluster, fragments: list[Fragment], seconds: float) -> None:
    """Let the store believe that it has had these for a while, and let the broker learn of it."""
    for fragment in fragments:
        path = cluster.folder / "objects" / fragment.content_path
        os.utime(path, (time.time() - seconds,) * 2)


async def test_retention_removes_from_the_front_and_readers_jump(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(spec(retention_ms=3_600_000))
        content = await fill(journals, 4)
        found = await until_stored(journals, 4)
        await age(cluster, found[:2], 7_200)
        host = cluster.hosts("shop/orders")["b1"]
        await host.fragments.refresh()
        removed = (await journals.prune("shop/orders")).fragments
        seen = [(each.begin, each.end) for each in removed]
        left = [chunk async for chunk in journals.read("shop/orders", 0)]
        # The broker prunes by itself too, and may have been first.
        assert seen in ([(0, LENGTH), (LENGTH, 2 * LENGTH)], [])
        assert left[0].offset == 2 * LENGTH
        assert b"".join(bytes(chunk.content) for chunk in left) == content[2 * LENGTH :]


async def test_a_reader_may_skip_what_was_stored_long_ago(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(spec())
        content = await fill(journals, 3)
        found = await until_stored(journals, 3)
        await age(cluster, found[:2], 7_200)
        await cluster.hosts("shop/orders")["b1"].fragments.refresh()
        since = int(time.time()) - 3_600
        chunks = [chunk async for chunk in journals.read("shop/orders", 0, begin_mod_time=since)]
        assert b"".join(bytes(chunk.content) for chunk in chunks) == content[2 * LENGTH :]


async def test_a_broker_which_comes_later_serves_what_others_stored(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 2) as cluster, cluster.client() as journals:
        await cluster.create(spec())
        content = await fill(journals, 2)
        await cluster.stop(cluster.primary("shop/orders"), drains=True)
        assert await read_all(journals, "shop/orders") == content
        done = await journals.append("shop/orders", b"more", timeout=WAIT_S)
        assert done.begin == len(content)


async def test_a_replica_leaves_fragments_to_the_primary_until_another_one_leads(tmp_path: Path) -> None:
    one_hour = 3_600_000
    async with running_cluster(tmp_path, 2, late_upload_ms=one_hour) as cluster, cluster.client() as journals:
        await cluster.create(msgspec.structs.replace(spec(), replication=2))
        primary = cluster.primary("shop/orders")
        (replica,) = (name for name in cluster.brokers if name != primary)
        persister, host = cluster.brokers[replica].server.persister, cluster.hosts("shop/orders")[replica]

        async def until_it_waits_with(count: int) -> list[Fragment]:
            async with asyncio.timeout(WAIT_S):
                while True:
                    found = persister.waiting("shop/orders")
                    if len(found) == count:
                        return found
                    await asyncio.sleep(0.01)

        await fill(journals, 2)
        await until_stored(journals, 2)
        await until_it_waits_with(2)  # it does not know that they are stored
        host.fragments.on_primary(NodeId("local#newcomer"))
        await until_it_waits_with(0)
        # The fragment being written then began under the old primary.
        await journals.append("shop/orders", bytes(2 * LENGTH), timeout=WAIT_S)
        await fill(journals, 1)
        (left,) = await until_it_waits_with(1)
        assert left.begin > 2 * LENGTH + len(b"tail")


async def test_a_deleted_journal_leaves_its_fragments_and_a_new_life_begins_above(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(spec())
        content = await fill(journals, 2)
        await until_stored(journals, 2)
        await journals.apply([Change(delete="shop/orders")])
        await journals.create(spec())
        done = await journals.append("shop/orders", b"new life", timeout=WAIT_S)
        assert done.begin > len(content)
        shown = await read_all(journals, "shop/orders")
        assert shown.endswith(b"new life")


async def test_a_journal_with_a_maximum_rate_is_slowed_down(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        slow = msgspec.structs.replace(spec(), max_append_rate=40_000)
        await cluster.create(slow)
        began = time.monotonic()
        for _ in range(5):
            await journals.append("shop/orders", b"x" * 5_000, timeout=WAIT_S)
        # A quarter of a second is free; the last append may overdraw.
        assert time.monotonic() - began > (25_000 - 5_000) / 40_000 - 0.25
