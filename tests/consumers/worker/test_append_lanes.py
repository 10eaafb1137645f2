"""A shard's appends: in order, once each, and without leaving registers behind for ever."""

import asyncio
from pathlib import Path

from tests.journals.broker.cluster import WAIT_S, read_all, running_cluster

from penstock.consumers.worker.append_lanes import AppendLanes, writer_of
from penstock.journals.client.journal import Journals
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import NotFound, PenstockError
from penstock.kernel.ids import Offset
from penstock.messages.uuid import ProducerId

ORDERS = "shop/orders"


class Ends:
    """The completions that the lanes of a life reported."""

    def __init__(self, journals: Journals, producer: int) -> None:
        self.ends: dict[int, Offset] = {}
        self.errors: dict[int, PenstockError] = {}
        self._changed = asyncio.Event()
        self.lanes = AppendLanes(
            journals, writer_of("count", ProducerId(producer)), appended=self._appended, failed=self._failed
        )

    def _appended(self, number: int, end: Offset) -> None:
        self.ends[number] = end
        self._changed.set()

    def _failed(self, number: int, error: PenstockError) -> None:
        self.errors[number] = error
        self._changed.set()

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while len(self.ends) + len(self.errors) < count:
                self._changed.clear()
                await self._changed.wait()


async def test_appends_are_in_order_and_each_is_told_its_own_end(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name=ORDERS, replication=1))
        ends = Ends(journals, 1)
        pieces = [f"{number:03d}|".encode() * (1 + number % 5) for number in range(200)]
        for number, piece in enumerate(pieces):
            ends.lanes.put(number, ORDERS, piece)
            if not number % 50:
                await ends.wait_for(number + 1)
        await ends.wait_for(len(pieces))
        content = await read_all(journals, ORDERS)
        assert content == b"".join(pieces)
        assert all(content[: ends.ends[number]].endswith(piece) for number, piece in enumerate(pieces))
        await ends.lanes.close()


async def test_a_journal_which_is_not_there_fails_its_appends_and_no_others(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name=ORDERS, replication=1))
        ends = Ends(journals, 1)
        ends.lanes.put(1, "shop/nowhere", b"x")
        ends.lanes.put(2, ORDERS, b"y")
        await ends.wait_for(2)
        assert isinstance(ends.errors[1], NotFound)
        assert ends.ends == {2: 1}
        await ends.lanes.close()
