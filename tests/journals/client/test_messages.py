"""Messages without a consumer: published ones are read once, in order, with duplicates and rolled-back ones
left out.
"""

from pathlib import Path
from random import Random

import pytest
from tests.journals.broker.cluster import running_cluster

from penstock.journals.client.messages import JSON, MessagePublisher, read_committed
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import MalformedFrame
from penstock.messages.publisher import Publisher
from penstock.messages.reader import OnBad
from penstock.messages.uuid import producer_id

ORDERS = "shop/orders"


async def test_what_is_published_is_read_in_order(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name=ORDERS, replication=1))
        async with MessagePublisher(journals) as publish:
            first = await publish(ORDERS, {"n": 0})
            puts = [await publish.put(ORDERS, [{"n": number}]) for number in range(1, 300)]
            end = (await puts[-1]).end
        found = [message async for message in read_committed(journals, ORDERS)]
        assert [message.value["n"] for message in found] == list(range(300))
        assert (found[0].begin, found[0].end, found[-1].end) == (0, first.end, end)
        assert len({message.uuid for message in found}) == 300
        times = [message.published_at for message in found if message.published_at is not None]
        assert times == sorted(times)
        assert len(times) == 300


async def test_duplicates_and_what_was_rolled_back_are_not_read(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name=ORDERS, replication=1))
        publisher = Publisher(producer_id(Random(1).getrandbits(48)), 1_700_000_000_000_000_000)
        once = publisher.committed(ORDERS, JSON, [{"n": 1}])
        pending = publisher.uncommitted(ORDERS, JSON, [{"n": 2}, {"n": 3}])
        acks = publisher.ack_intents()[ORDERS]
        lost = publisher.uncommitted(ORDERS, JSON, [{"n": 4}])
        for frames in (once, once, pending, pending, acks, lost, acks, b'{"n": 5}\n'):
            await journals.append(ORDERS, frames)
        assert [message.value["n"] async for message in read_committed(journals, ORDERS)] == [1, 2, 3, 5]
        unnamed = [message async for message in read_committed(journals, ORDERS) if message.uuid is None]
        assert [message.published_at for message in unnamed] == [None]


async def test_a_bad_frame_is_named_by_its_offset_or_passed_over(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name=ORDERS, replication=1))
        await journals.append(ORDERS, b'{"n": 1}\nnonsense\n{"n": 2}\n')
        with pytest.raises(MalformedFrame, match="shop/orders at 9"):
            [message async for message in read_committed(journals, ORDERS)]
        skipping = read_committed(journals, ORDERS, on_bad=OnBad.SKIP)
        assert [message.value["n"] async for message in skipping] == [1, 2]
