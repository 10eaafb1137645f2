"""A journal whose last bytes are lost for good: it refuses, says why, and continues above everything after
reset-head.
"""

import asyncio
import hashlib
import json
import shutil
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.journals.broker.cluster import WAIT_S, Cluster, running_cluster
from tests.plumbing.http.harness import connect

from penstock.consumers.worker.append_lanes import AppendLanes
from penstock.journals.client.append_service import AppendService
from penstock.journals.client.journal import Journals
from penstock.journals.core.lead import Lead
from penstock.journals.core.sync import SyncDecision, decide_reset
from penstock.journals.gateway import JournalGateway
from penstock.journals.records.api import AppendRequest, Status
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.fragment_index import Gap
from penstock.journals.records.head import HeadRecord
from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import (
    Forbidden,
    HeadLost,
    PenstockError,
    PreconditionFailed,
    Unavailable,
    WriterExpired,
)
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


async def reset(journals: Journals, offset: int | None = None) -> Offset:
    """Reset the head, and try again while brokers ask each other."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                return await journals.reset_head("shop/orders", offset=offset)
            except Unavailable:
                continue


async def test_publishers_and_shards_go_on_after_a_reset(tmp_path: Path) -> None:
    """Publishers need no append with a register first."""
    async with running_cluster(tmp_path, 2, default_store="") as cluster:
        await cluster.create(ORDERS)
        async with AsyncExitStack() as stack:
            journals = await stack.enter_async_context(cluster.client())
            service = await stack.enter_async_context(AppendService(journals, attempt_s=1.0))
            await service.append("shop/orders", b"before")
            appended, failed = asyncio.Queue[Offset](), asyncio.Queue[PenstockError]()
            lanes = AppendLanes(
                journals,
                "shard-1.2",
                appended=lambda _, end: appended.put_nowait(end),
                failed=lambda _, error: failed.put_nowait(error),
            )
            stack.push_async_callback(lanes.close)
            lanes.put(1, "shop/orders", b"shard")
            assert await appended.get() == len(b"beforeshard")
            await lose_everything(cluster)
            end = await reset(journals)
            async with asyncio.timeout(WAIT_S):
                done = await service.append("shop/orders", b"after")
                lanes.put(2, "shop/orders", b"shard")
                assert done.begin == end
                assert await appended.get() == end + len(b"aftershard")
            assert failed.empty()
            with pytest.raises(PreconditionFailed, match="lost the registers"):
                await journals.append("shop/orders", b"x", txn=Txn("loader", 2))


async def test_what_was_on_its_way_at_a_reset_does_not_take_effect_twice(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 2, default_store="") as cluster:
        await cluster.create(ORDERS)
        txn = Txn("w", time.time_ns() // 1_000)
        async with cluster.client() as journals:
            await journals.append("shop/orders", b"once", txn=txn)
        await lose_everything(cluster)
        async with cluster.client() as journals:
            await reset(journals)
            with pytest.raises(WriterExpired):
                await journals.append("shop/orders", b"once", txn=txn, timeout=WAIT_S)


async def test_a_reset_goes_where_it_is_told_above_all_that_may_have_been_written(tmp_path: Path) -> None:
    wanted = 10 << 40
    async with running_cluster(tmp_path, 2, default_store="") as cluster:
        await cluster.create(ORDERS)
        await lose_everything(cluster)
        async with cluster.client() as journals:
            with pytest.raises(Forbidden, match="give one above"):
                await reset(journals, 4_711)
            assert await reset(journals, wanted) == wanted
            assert (await journals.append("shop/orders", b"x", timeout=WAIT_S)).begin == wanted


async def test_one_reset_is_enough_however_far_the_store_reaches(tmp_path: Path) -> None:
    """A store with 192 GiB took four resets, each of which said OK."""
    end = 192 << 30
    stored = Fragment("shop/orders", Offset(end - 5), Offset(end), hashlib.sha1(b"12345").digest())
    path = tmp_path / "objects" / stored.content_path
    async with running_cluster(tmp_path, 2) as cluster:
        await cluster.create(ORDERS)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
        await lose_everything(cluster)
        async with cluster.client() as journals:
            assert await reset(journals) >= end
            done = await journals.append("shop/orders", b"x", timeout=WAIT_S)
            assert done.begin >= end


async def test_a_reset_at_the_limit_only_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_limit(lead: Lead, head: HeadRecord, _: AppendRequest) -> SyncDecision:
        return decide_reset(head.limit, 0, lead.replica.codec)

    monkeypatch.setattr(Lead, "decide_reset", at_limit)
    monkeypatch.setattr(sys.modules[__name__], "WAIT_S", 3.0)
    with pytest.raises((AssertionError, PenstockError)):
        await test_one_reset_is_enough_however_far_the_store_reaches(tmp_path / "one")
    with pytest.raises((AssertionError, PenstockError, TimeoutError)):
        await test_publishers_and_shards_go_on_after_a_reset(tmp_path / "other")
