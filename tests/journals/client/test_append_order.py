"""Appends to one journal leave in the order of the calls, whatever their size, and however full the stream is."""

import asyncio
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest
from tests.journals.broker.cluster import read_all, running_cluster

from penstock.journals.client.journal_appends import PART_BYTES, QUEUE_BYTES
from penstock.journals.client.journal_outcomes import Appended
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import PreconditionFailed
from penstock.kernel.ids import Offset

JOURNAL = "shop/orders"
MIXED = (10, PART_BYTES + 1, 5, 2 * PART_BYTES, 1, 1, PART_BYTES, 3)
FULL = (PART_BYTES,) * (2 * QUEUE_BYTES // PART_BYTES)  # more than the stream takes at once


@pytest.mark.parametrize("sizes", [MIXED, (*FULL, *MIXED)], ids=["mixed", "full"])
async def test_conditional_appends_leave_in_the_order_of_the_calls(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name=JOURNAL, replication=1))
        offsets = list(accumulate(sizes, initial=0))
        contents = [Random(number).randbytes(size) for number, size in enumerate(sizes)]
        appends = [
            journals.append(JOURNAL, content, offset=Offset(offset))
            for offset, content in zip(offsets, contents, strict=False)
        ]
        for done, offset in zip(await asyncio.gather(*appends), offsets, strict=False):
            assert done.begin == offset
        assert await read_all(journals, JOURNAL) == b"".join(contents)


async def test_a_chain_is_one_append_of_the_broker_and_shares_its_fate(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name=JOURNAL, replication=1))
        first = await journals.append(JOURNAL, b"a chain ", union={"author": "me"})
        start = first.end
        host = cluster.hosts(JOURNAL)["b1"]

        async def chain(begin: int, check: str) -> list[Appended | BaseException]:
            wishes = [
                journals.append(JOURNAL, b"ten bytes.", offset=Offset(begin + 10 * n), check=check) for n in range(50)
            ]
            return await asyncio.gather(*wishes, return_exceptions=True)

        before = host._requests
        done = await chain(start, "author=me")
        assert [each.begin for each in done if isinstance(each, Appended)] == [start + 10 * n for n in range(50)]
        assert host._requests - before <= 3, "one append of the core, and perhaps the first alone"
        refused = await chain(start + 499, "author=me")
        assert {type(each) for each in refused} == {PreconditionFailed}
        refused = await chain(start + 500, "author=you")
        assert {type(each) for each in refused} == {PreconditionFailed}
        assert len(await read_all(journals, JOURNAL)) == start + 500
