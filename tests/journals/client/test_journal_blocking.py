"""The blocking client: the same answers, from a thread."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.journals.broker.cluster import running_cluster

from penstock.journals.client.journal_blocking import BlockingAppendService, BlockingJournals
from penstock.journals.records.api import Resolution
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import NotFound

ORDERS = JournalSpec(name="shop/orders", replication=1)


def use(addresses: list[str]) -> None:
    with BlockingJournals(addresses, direct=True) as journals:
        journals.create(ORDERS)
        done = journals.append("shop/orders", b"hello", timeout=60.0)
        assert journals.resolve("shop/orders", done.epoch, done.begin, done.end) is Resolution.COMMITTED
        assert [bytes(chunk.content) for chunk in journals.read("shop/orders")] == [b"hello"]
        assert [each.spec.name for each in journals.list("name=shop/orders")] == ["shop/orders"]
        assert len(next(journals.watch())) == 1
        assert journals.stat("shop/orders").write_head == 5
        assert journals.fragments("shop/orders").write_head == 5
        assert len(journals.explain("shop/orders")) == 1
        with pytest.raises(NotFound):
            journals.append("shop/missing", b"")
        with BlockingAppendService(journals) as service, ThreadPoolExecutor(8) as threads:
            service.put("shop/orders", b"!")
            ends = list(threads.map(lambda number: service.append("shop/orders", b"%d" % number).end, range(8)))
        assert sorted(ends) == list(range(7, 15))


async def test_a_script_uses_journals_without_await(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await asyncio.to_thread(use, cluster.addresses)
