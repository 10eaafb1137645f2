"""A journal as the lake's queue: the promises of a queue, frames among nonsense, and a whole lake on it."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.journals.broker.cluster import running_cluster
from tests.lake.member.queue_behaviours import STAMP, keeps_its_promises, take

from penstock.journals.client.journal import Chunk, Journals
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import Compacted, NoChanges
from penstock.kernel.ids import Offset
from penstock.lake.member.lake_journal_queue import MAGIC, Frames, JournalQueue, frame
from penstock.lake.member.queue import START
from penstock.lake.member.services.lake_service import LakeService, serving_lake
from penstock.plumbing.objects import ObjectStore, open_store

QUEUE = JournalSpec(name="lake/queue", replication=3)


async def test_it_keeps_the_promises_of_a_queue(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as journals, cluster.client() as same:
        await cluster.create(QUEUE)
        queue, other = (JournalQueue(each, QUEUE.name, clock=lambda: STAMP) for each in (journals, same))
        await keeps_its_promises(queue, other, lambda: journals.append(QUEUE.name, b"\xd1LQ1 by hand \xd1\xd1LQ"))


class _WithAHole(Journals):
    """A journal whose beginning was pruned."""

    async def read(self, *_: object, **__: object):  # type: ignore[no-untyped-def]
        yield Chunk(Offset(100), b"", None, Offset(100))  # type: ignore[arg-type]


async def test_a_reader_too_far_behind_is_told() -> None:
    with pytest.raises(Compacted, match="between 0 and 100"):
        await take(JournalQueue(_WithAHole(["127.0.0.1:1"]), QUEUE.name), START, 1)


def strangers() -> st.SearchStrategy[tuple[bytes, None]]:
    """Bytes which nobody framed, though they may look like it."""
    return st.tuples(st.binary(max_size=40) | st.just(MAGIC), st.none())


BATCHES = st.binary(max_size=40).map(lambda batch: (frame(batch), batch))


@given(st.lists(strangers() | BATCHES), st.data())
def test_every_reader_cuts_the_same_batches_whatever_lies_between(
    pieces: list[tuple[bytes, bytes | None]], data: st.DataObject
) -> None:
    content = b"".join(piece for piece, _ in pieces)
    whole = Frames(0).feed(content)
    frames, found, at = Frames(0), [], 0
    while at < len(content):
        step = data.draw(st.integers(1, len(content) - at))
        found += frames.feed(content[at : at + step])
        at += step
    assert found == whole
    for offset, _ in whole:  # and from behind any of them
        assert Frames(offset).feed(content[offset:]) == [each for each in whole if each[0] > offset]


@given(st.lists(st.binary(max_size=40).map(lambda noise: (noise.replace(MAGIC[:1], b""), None)) | BATCHES))
def test_every_batch_is_found_among_bytes_which_begin_none(pieces: list[tuple[bytes, bytes | None]]) -> None:
    found = Frames(0).feed(b"".join(piece for piece, _ in pieces))
    assert [batch for _, batch in found] == [batch for _, batch in pieces if batch is not None]


def lake_on(journals: Journals, folder: Path, store: ObjectStore) -> AbstractAsyncContextManager[LakeService]:
    queue = JournalQueue(journals, QUEUE.name)
    return serving_lake(queue, store, f"file://{folder}/objects", secret="s", shard="j", checkpoint_span=2_000)


async def test_a_lake_whose_changes_a_journal_orders(tmp_path: Path) -> None:
    """Two members; then all are gone, and a third finds everything."""
    async with running_cluster(tmp_path) as cluster, open_store(f"file://{tmp_path}/objects") as store:
        await cluster.create(QUEUE)
        async with (
            cluster.client() as one,
            cluster.client() as two,
            lake_on(one, tmp_path, store) as here,
            lake_on(two, tmp_path, store) as there,
        ):
            await here.create_repository("shop")
            for number in range(20):
                await here.put("shop", "main", f"a/{number:02d}", b"%d" % number)
                assert (await there.head("shop", "main", f"a/{number:02d}")).path  # linearizable through the other
            commit = await there.commit("shop", "main", "twenty")
            with pytest.raises(NoChanges):
                await here.commit("shop", "main", "none")
            await here.put("shop", "main", "staged", b"x")
        async with cluster.client() as three, lake_on(three, tmp_path, store) as again:
            assert (await again.get_commit("shop", "main")).id == commit.id
            assert len((await again.list("shop", "main")).results) == 21
            assert again.engine.machine.applied > 20
