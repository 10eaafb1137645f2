"""Publishers: each message is published once and in order, from any thread and however the block ends."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.journals.broker.cluster import running_cluster

from penstock.journals.client import publishers
from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.client.named_blocking import Journal
from penstock.journals.client.named_journal import AsyncJournal
from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.messages.framing.csv_rows import CsvRows


async def values_of(journal: AsyncJournal) -> list[Any]:
    return [message.value async for message in journal.read()]


async def publish_and_raise(journal: AsyncJournal) -> None:
    async with journal.publisher() as publish:
        await publish({"n": 1})
        raise RuntimeError("of the application")


async def test_a_loop_that_never_waits_is_published_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishers, "GATHERED_MAX", 10)
    monkeypatch.setattr(publishers, "SENT_MAX", 7)
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        async with orders.publisher() as publish:
            for number in range(25):
                await publish({"n": number})
            await publish(*({"n": number} for number in range(25, 60)))
        assert [each["n"] for each in await values_of(orders)] == list(range(60))


async def test_tasks_that_publish_at_once_wait_for_room(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        async with orders.publisher() as publish:
            appends = publish._publisher._appends
            appends._memory_bytes_max, appends._spool_bytes_max = 200, 0  # room for two or three messages

            async def some(name: int) -> None:
                for number in range(20):
                    await publish({"of": name, "n": number})

            await asyncio.gather(*(some(name) for name in range(3)))
        found = await values_of(orders)
        assert [[each["n"] for each in found if each["of"] == name] for name in range(3)] == [list(range(20))] * 3


async def test_a_block_that_raises_publishes_what_it_handed_in(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        with pytest.raises(RuntimeError, match="of the application") as raised:
            await publish_and_raise(orders)
        assert await values_of(orders) == [{"n": 1}]
        assert not hasattr(raised.value, "__notes__")


async def test_a_note_says_what_a_block_that_raised_did_not_publish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishers, "CLOSE_S", 0.05)
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        with pytest.raises(RuntimeError) as raised:
            await publish_and_raise(AsyncJournal(journals, "shop/nothing"))
        (note,) = raised.value.__notes__
        assert note.startswith("shop/nothing: 1 of the messages handed in may not be published: ")


def hand_in(journal: Journal, errors: list[BaseException]) -> None:
    def publish_some(name: int) -> None:
        for number in range(500):
            publish({"of": name, "n": number})

    try:
        with journal.publisher() as publish:
            threads = [threading.Thread(target=publish_some, args=(name,)) for name in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            raise RuntimeError("of the application")
    except RuntimeError as error:
        errors.append(error)


async def test_threads_hand_in_at_once_and_a_block_that_raises_publishes_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishers, "HANDED_MAX", 50)
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        errors: list[BaseException] = []
        with BlockingJournals(cluster.addresses) as blocking:
            await asyncio.to_thread(hand_in, Journal(blocking, "shop/orders"), errors)
        assert [str(error) for error in errors] == ["of the application"]
        found = await values_of(orders)
        assert [[each["n"] for each in found if each["of"] == name] for name in range(4)] == [list(range(500))] * 4


async def test_a_bad_value_is_refused_alone(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        async with orders.publisher() as publish:
            await publish({"n": 1})
            with pytest.raises(InvalidArgument, match="a JSON message is an object, not 5"):
                await publish({"n": 2}, 5)
            await publish({"n": 3})
        assert await values_of(orders) == [{"n": 1}, {"n": 3}]


async def test_a_row_is_read_when_it_is_handed_in(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        rows = CsvRows()
        row = ["a", "1"]
        async with orders.publisher(rows) as publish:
            await publish(row)
            row[1] = "2"
            await publish(row)
        found = [message.value async for message in orders.read(framing=rows)]
        assert found == [["a", "1"], ["a", "2"]]


async def test_nothing_is_published_behind_a_refusal(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        publisher = AsyncJournal(journals, "shop/nothing").publisher()
        with pytest.raises(NotFound):
            async with publisher as publish:
                await publish({"n": 1})
        with pytest.raises(NotFound):
            await publisher({"n": 2})
