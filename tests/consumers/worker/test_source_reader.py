"""A source as its shard reads it: ahead within a bound, again on request, and from another place."""

import asyncio
from pathlib import Path

from tests.journals.broker.cluster import running_cluster

from penstock.consumers.core.effects import ReadSource, SourceChunk
from penstock.consumers.worker import source_reader
from penstock.consumers.worker.source_reader import SourceReader
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.ids import Offset

NAME = "shop/orders"


async def test_it_reads_on_and_again_and_from_another_place(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name=NAME, replication=1))
        await journals.append(NAME, b"0123456789")
        reader = SourceReader(journals, NAME)
        assert await reader.read(ReadSource(NAME, Offset(0))) == SourceChunk(NAME, Offset(0), b"0123456789")
        waiting = asyncio.create_task(reader.read(ReadSource(NAME, Offset(10))))
        assert await reader.read(ReadSource(NAME, Offset(3), Offset(6))) == SourceChunk(NAME, Offset(3), b"345")
        assert not waiting.done()
        await journals.append(NAME, b"abc")
        assert await waiting == SourceChunk(NAME, Offset(10), b"abc")
        assert await reader.read(ReadSource(NAME, Offset(8))) == SourceChunk(NAME, Offset(8), b"89abc")
        await reader.close()


async def test_what_is_read_ahead_is_bounded(tmp_path: Path) -> None:
    piece = b"x" * (256 << 10)
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name=NAME, replication=1))
        for _ in range(16):
            await journals.append(NAME, piece)
        reader = SourceReader(journals, NAME)
        taken = 0
        while taken < 16 * len(piece):
            chunk = await reader.read(ReadSource(NAME, Offset(taken)))
            assert chunk.offset == taken
            taken += len(chunk.data)
            assert reader._ahead_bytes <= source_reader.AHEAD_BYTES + (1 << 20)
        await reader.close()
