"""A journal whose last bytes are lost for good: it refuses, says why, and goes on above everything after reset-head."""

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.journals.broker.cluster import WAIT_S, Cluster, running_cluster

from penstock.journals.client.journal import Journals
from penstock.journals.records.fragment_index import Gap
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import PreconditionFailed, Unavailable
from penstock.kernel.ids import Offset

ORDERS = JournalSpec(name="shop/orders", replication=2)


async def lose_everything(cluster: Cluster) -> None:
    """Every broker dies at once, and takes its Spools along."""
    names = list(cluster.brokers)
    await asyncio.gather(*(cluster.stop(name) for name in names))
    for name in names:
        shutil.rmtree(cluster.folder / name / "spools")
    await asyncio.gather(*(cluster.start(name) for name in names))


async def words(journals: Journals) -> str:
    return " ".join(
        line for each in await journals.explain("shop/orders") if not isinstance(each, Exception) for line in each.lines
    )


async def test_a_lost_head_is_refused_until_an_operator_resets_it(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 2, default_store="") as cluster:
        await cluster.create(ORDERS)
        async with cluster.client() as journals:
            await journals.append("shop/orders", b"lost", union={"author": "me"})
        await lose_everything(cluster)
        async with cluster.client() as journals:
            with pytest.raises(Unavailable, match="takes no appends") as refused:
                await journals.append("shop/orders", b"x", timeout=5.0)
            assert refused.value.details["status"] == "head-lost"
            assert "reset-head shop/orders" in refused.value.next_step
            async with asyncio.timeout(WAIT_S):
                while True:
                    try:
                        end = await journals.reset_head("shop/orders")
                        break
                    except Unavailable:
                        continue
            assert end >= 64 << 30
            with pytest.raises(PreconditionFailed, match="lost the registers"):
                await journals.append("shop/orders", b"x", check="author=me", timeout=WAIT_S)
            done = await journals.append("shop/orders", b"found", union={"author": "you"}, timeout=WAIT_S)
            assert done.begin == end
            [chunk] = [chunk async for chunk in journals.read("shop/orders", 0)]
            assert (chunk.offset, bytes(chunk.content)) == (end, b"found")
            [info] = await journals.list("name=shop/orders")
            assert info.resets == (end,)
            assert (await journals.fragments("shop/orders")).gaps == (Gap(Offset(0), end, is_jumped=True),)
            assert f"No fragment has [0, {end}): a reset-head left that out" in await words(journals)
            assert f"Readers see everything below {done.end}" in await words(journals)
