"""A journal whose last bytes are lost for good: it refuses, says why, and continues above everything after
reset-head.
"""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from tests.journals.broker.cluster import WAIT_S, Cluster, running_cluster
from tests.plumbing.http.harness import connect

from penstock.journals.client.journal import Journals
from penstock.journals.gateway import JournalGateway
from penstock.journals.records.api import Status
from penstock.journals.records.fragment_index import Gap
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import HeadLost, PreconditionFailed, Unavailable
from penstock.kernel.ids import Offset
from penstock.plumbing.http.app import App
from penstock.plumbing.http.server import HttpServer

ORDERS = JournalSpec(name="shop/orders", replication=2)


async def lose_everything(cluster: Cluster) -> None:
    """Every broker dies at once, and takes its Spools along."""
    names = list(cluster.brokers)
    await asyncio.gather(*(cluster.stop(name) for name in names))
    for name in names:
        shutil.rmtree(cluster.folder / name / "spools")
    await asyncio.gather(*(cluster.start(name) for name in names))


async def read_to_the_end(journals: Journals, *, follow: bool) -> None:
    async with asyncio.timeout(10.0):
        async for _ in journals.read("shop/orders", 0, follow=follow):
            pass


async def reads_are_refused(journals: Journals) -> None:
    """At the end, and however they ask: none hangs, and none ends with success."""
    for follow in (False, True):
        with pytest.raises(HeadLost) as refused:
            await read_to_the_end(journals, follow=follow)
        assert refused.value.details["begin"] == 0
        assert refused.value.next_step == "penstock journals reset-head shop/orders"
    for offset in (-1, 0):
        with pytest.raises(HeadLost):
            await journals.stat("shop/orders", offset)
    assert "The journal's head is lost" in await words(journals)


async def http_reads_are_refused(journals: Journals) -> None:
    async with (
        await HttpServer.start(App([JournalGateway(journals).site()])) as server,
        connect(server) as client,
        asyncio.timeout(10.0),
    ):
        for query in ("", "?block=true", "?offset=-1"):
            answer = await client.ask(f"GET /journal/shop/orders{query} HTTP/1.1\r\n\r\n".encode())
            assert (answer.status, answer.headers["content-range"]) == (410, "bytes */0")
            assert json.loads(answer.body)["error"] == "head-lost"


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
            await reads_are_refused(journals)
            await http_reads_are_refused(journals)
            assert sum(broker.server.alarms.counts[Status.HEAD_LOST] for broker in cluster.brokers.values())
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
