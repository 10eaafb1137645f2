"""A journal by its name: its facts, its last messages, those since a time, uncommitted ones, and tables."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest
from tests.journals.broker.cluster import running_cluster

from penstock.journals.client import message_reads
from penstock.journals.client.messages import JSON, Message
from penstock.journals.client.named_journal import AsyncJournal, safe_copies
from penstock.journals.client.transactions.pending import PendingMessages
from penstock.kernel.errors import InvalidArgument, NotFound, PreconditionFailed
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.fixed import Fixed


def numbers(messages: list[Message]) -> list[Any]:
    return [message.value["n"] for message in messages]


async def test_the_last_messages_are_read_from_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_reads, "WINDOW_BYTES", 300)  # which begins in the middle of a message
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        assert await orders.tail() == []
        async with orders.publisher() as publish:
            await publish(*({"n": number} for number in range(1_000)))
        last = await orders.tail(3)
        assert numbers(last) == [997, 998, 999]
        assert f"<td>{last[0].begin}</td>" in last._repr_html_()
        assert numbers(await orders.tail(2_000)) == list(range(1_000))
        with pytest.raises(InvalidArgument, match="above 0"):
            await orders.tail(0)
        bytes_only = await AsyncJournal(journals, "shop/bytes").create()
        async with bytes_only.publisher(Fixed()) as publish:
            await publish(*(b"%d" % number * 50 for number in range(100)))
        assert [message.value for message in await bytes_only.tail(2, framing=Fixed())] == [b"98" * 50, b"99" * 50]


async def test_a_transaction_that_began_before_the_window_is_among_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_reads, "WINDOW_BYTES", 300)
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        pending = PendingMessages(journals, 10.0)
        await pending.put("shop/orders", JSON, JSON.prepare_all([{"n": -2}, {"n": -1}]))
        intents = await pending.settle()
        async with orders.publisher() as publish:
            await publish(*({"n": number} for number in range(100)))
        assert numbers(await orders.tail(3)) == [97, 98, 99]
        uncommitted = [message async for message in orders.read_uncommitted()]
        assert numbers(uncommitted) == [-2, -1, *range(100)]
        assert [message.is_in_transaction for message in uncommitted[:3]] == [True, True, False]
        await orders.append(intents["shop/orders"])
        assert numbers(await orders.tail(3)) == [99, -2, -1]
        assert len([message async for message in orders.read_uncommitted()]) == 102
        await pending.close()


async def test_messages_since_a_time_and_up_to_an_offset(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        async with orders.publisher() as publish:
            await publish({"n": 1})
            await publish.flush()
            between = (await orders.info()).end
            middle = datetime.now(UTC)
            await publish({"n": 2})
        assert numbers([message async for message in orders.since(middle)]) == [2]
        assert numbers([message async for message in orders.since(middle.timestamp() - 60)]) == [1, 2]
        assert numbers([message async for message in orders.read(end=between)]) == [1]
        with pytest.raises(InvalidArgument, match="a zone"):
            await anext(aiter(orders.since(datetime(2026, 1, 1))))  # noqa: DTZ001


async def test_facts_and_deletion(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        done = await orders.append(b'{"n":1}\n')
        facts = await orders.info()
        assert (facts.begin, facts.end, facts.spec.replication, facts.spec.fsync) == (0, done.end, 1, True)
        assert repr(facts) == f"journal shop/orders: [0, {done.end}), 1/1 brokers, primary {facts.primary}"
        assert "<th>fsync</th><td>yes</td>" in facts._repr_html_()
        await orders.delete()
        with pytest.raises(NotFound):
            await orders.delete()
        await orders.delete(missing_ok=True)
        with pytest.raises(NotFound):
            await orders.info()


async def test_copies_are_safe_by_default(tmp_path: Path) -> None:
    assert [safe_copies(brokers) for brokers in range(5)] == [(3, False), (1, True), (2, True), (3, False), (3, False)]
    async with running_cluster(tmp_path, 2) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        spec = (await orders.info()).spec
        assert (spec.replication, spec.fsync) == (2, True)
        other = await AsyncJournal(journals, "shop/other").create(replication=1)
        assert (await other.info()).spec.fsync is False


ROWS = [{"sku": "kettle", "n": 2, "price": 39.9}, {"sku": "cup", "n": 6, "price": None}]


@pytest.mark.parametrize(
    "table",
    [pa.Table.from_pylist(ROWS), polars.DataFrame(ROWS), pandas.DataFrame(ROWS), pa.RecordBatch.from_pylist(ROWS)],
    ids=lambda table: f"{type(table).__module__.partition('.')[0]}-{type(table).__name__}",
)
async def test_tables_go_in_and_come_out(table: Any, tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        assert await orders.publish_table(table) == 2
        assert (await orders.to_arrow()).to_pylist() == ROWS
        assert (await orders.to_polars()).to_dicts() == ROWS
        found = await orders.to_pandas()
        assert found["sku"].tolist() == ["kettle", "cup"]
        assert found["price"].isna().tolist() == [False, True]
        small = await orders.to_arrow(schema=pa.schema([("n", pa.int8())]))
        assert small.equals(pa.table({"n": pa.array([2, 6], pa.int8())}))


async def test_batches_of_rows_and_values_that_fit_no_table(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        table = pa.Table.from_pylist(ROWS)
        framing = ArrowBatches(table.schema)
        batches = await AsyncJournal(journals, "shop/batches").create()
        assert await batches.publish_table(table, framing=framing) == 1
        assert (await batches.to_arrow(framing=framing)).equals(table)
        mixed = await AsyncJournal(journals, "shop/mixed").create()
        assert (await mixed.to_arrow()).num_rows == 0
        async with mixed.publisher() as publish:
            await publish({"n": 1}, {"n": "one"})
        with pytest.raises(InvalidArgument, match="do not fit one table"):
            await mixed.to_arrow()
        with pytest.raises(InvalidArgument, match="expected a DataFrame or an Arrow table, not dict"):
            await mixed.publish_table({"n": [1]})  # type: ignore[arg-type]


async def test_a_table_is_published_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        many = pa.table({"n": list(range(2_500))})
        publishing = asyncio.create_task(orders.publish_table(many))
        while not [message async for message in orders.read_uncommitted()]:
            assert [message async for message in orders.read()] == []
        assert await publishing == 2_500
        assert (await orders.to_arrow()).equals(many)
        with pytest.raises(NotFound):
            await AsyncJournal(journals, "shop/nothing").publish_table(many, timeout=1.0)
        with pytest.raises(PreconditionFailed):
            await orders.create()
