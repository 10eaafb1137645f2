"""A journal by its name: published messages are read once and in order, and failures are raised."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.journals.broker.cluster import running_cluster

from penstock.journals.client import publishers
from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.client.named_blocking import Journal
from penstock.journals.client.named_journal import AsyncJournal
from penstock.kernel.errors import AlreadyClosed, InvalidArgument, NotFound, PreconditionFailed


async def values_of(journal: AsyncJournal, offset: int = 0) -> list[Any]:
    return [message.value async for message in journal.read(offset)]


async def test_what_is_published_is_read_once_and_in_order(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        with pytest.raises(PreconditionFailed, match="there is a journal 'shop/orders' already"):
            await orders.create()
        assert await orders.create(exists_ok=True) is orders
        order = {"n": 0}
        async with orders.publisher() as publish:
            for number in range(100):
                order["n"] = number  # the same dict: it is read when it is handed in
                await publish(order)
            await publish({"n": 100}, {"n": 101})
        assert [each["n"] for each in await values_of(orders)] == list(range(102))
        assert repr(orders) == "journal shop/orders"
        done = await orders.append(b'{"n":102}\n')
        assert [each["n"] for each in await values_of(orders, done.begin)] == [102]


async def test_the_first_refusal_ends_the_publisher_and_is_raised(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        publisher = AsyncJournal(journals, "shop/nothing").publisher()
        with pytest.raises(NotFound):
            async with publisher as publish:
                await publish({"n": 1})
        with pytest.raises(NotFound):
            await publisher({"n": 2})


def in_threads(addresses: list[str]) -> list[int]:
    with BlockingJournals(addresses) as journals:
        orders = Journal(journals, "shop/orders").create()
        order = {"n": 0}
        with orders.publisher() as publish:
            for number in range(5 * publishers.HANDED_MAX // 2):
                order["n"] = number
                publish(order)
            publish.flush()
            assert next(orders.read()).published_at is not None
            with pytest.raises(InvalidArgument, match="cannot be a JSON message"):
                publish({"n": object()})
            publish({"n": -1})
        with pytest.raises(AlreadyClosed):
            publish({"n": -2})
        return [message.value["n"] for message in orders.read()]


async def test_without_await_it_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishers, "HANDED_MAX", 1_000)
    async with running_cluster(tmp_path, 1) as cluster:
        assert await asyncio.to_thread(in_threads, cluster.addresses) == [*range(2_500), -1]


def refused(addresses: list[str]) -> None:
    with (
        BlockingJournals(addresses) as journals,
        pytest.raises(NotFound),
        Journal(journals, "shop/nothing").publisher() as publish,
    ):
        publish({"n": 1})


async def test_a_refusal_is_raised_at_the_end_of_the_block(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await asyncio.to_thread(refused, cluster.addresses)
