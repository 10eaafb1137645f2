"""The client of journals: appended content is read back, from every replica, and every refusal names its reason."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.journals.broker.cluster import WAIT_S, Cluster, read_all, running_cluster

from penstock.journals.broker.process import BROKER_LIMITS, RunningBroker
from penstock.journals.client.journal import Change, Chunk, Journals
from penstock.journals.client.journal_appends import AppendStream, Lost
from penstock.journals.records.api import Resolution, Status
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.labels import LabelSet
from penstock.journals.records.messages import ProposeRequest
from penstock.journals.records.protocol import AppendWish, PartKind
from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import Flags, JournalSpec
from penstock.kernel.errors import (
    Forbidden,
    Indeterminate,
    InvalidArgument,
    NotFound,
    PreconditionFailed,
    Unavailable,
)
from penstock.kernel.ids import NodeId, Offset, Revision
from penstock.plumbing.wire.client import Channel

ORDERS = JournalSpec(name="shop/orders", replication=3)
ORDERS_EU = JournalSpec(name="shop/orders-eu", replication=1, labels=LabelSet.of({"region": "eu"}))


async def see(cluster: Cluster, journals: Journals, content: bytes) -> None:
    """Wait until every replica shows this content, once it has learned of the commit."""
    for address in cluster.addresses:
        shown = b""
        async with asyncio.timeout(WAIT_S):
            async for chunk in journals.read("shop/orders", 0, end=len(content), follow=True, address=address):
                shown += chunk.content
        assert shown == content


async def test_what_is_appended_is_read_back_from_every_replica(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        first = await journals.append("shop/orders", b"hello ")
        second = await journals.append("shop/orders", b"world")
        assert (first.begin, first.end, second.begin, second.end) == (0, 6, 6, 11)
        await see(cluster, journals, b"hello world")
        assert await read_all(journals, "shop/orders") == b"hello world"
        middle = [chunk async for chunk in journals.read("shop/orders", 3, end=8)]
        assert b"".join(bytes(chunk.content) for chunk in middle) == b"lo wo"
        assert [chunk async for chunk in journals.read("shop/orders", -1)] == []
        assert (await journals.stat("shop/orders")).write_head == 11


async def test_many_appends_in_flight_are_all_there_once_and_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        contents = [f"{number:04d}|".encode() * (1 + number % 700) for number in range(300)]
        done = await asyncio.gather(*(journals.append("shop/orders", content) for content in contents))
        shown = await read_all(journals, "shop/orders")
        assert len(shown) == sum(map(len, contents))
        assert all(shown[each.begin : each.end] == content for each, content in zip(done, contents, strict=True))


async def test_content_of_unknown_length_is_streamed_and_seen_only_as_a_whole(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        has_begun, may_end = asyncio.Event(), asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(24):
                yield b"x" * (1 << 20)
            has_begun.set()
            await may_end.wait()
            yield b"end"

        streaming = asyncio.create_task(journals.append("shop/orders", pieces(), timeout=WAIT_S))
        await has_begun.wait()
        assert await read_all(journals, "shop/orders") == b""
        may_end.set()
        done = await streaming
        assert (done.begin, done.end) == (0, (24 << 20) + 3)
        assert (await read_all(journals, "shop/orders"))[-5:] == b"xxend"


async def test_an_append_whose_source_fails_leaves_nothing(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)

        def broken() -> AsyncIterator[bytes]:
            async def pieces() -> AsyncIterator[bytes]:
                yield b"x" * (3 << 20)
                raise RuntimeError("the disk of the producer is gone")

            return pieces()

        with pytest.raises(RuntimeError, match="producer is gone"):
            await journals.append("shop/orders", broken())
        done = await journals.append("shop/orders", b"after")
        assert done.begin == 0
        await see(cluster, journals, b"after")


async def test_a_reader_follows_through_the_loss_of_the_broker_it_reads_from(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 4) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        shown = bytearray()
        all_seen = asyncio.Event()

        async def follow() -> None:
            async for chunk in journals.read("shop/orders", 0, follow=True):
                assert chunk.offset == len(shown)
                shown.extend(chunk.content)
                if len(shown) == 40:
                    all_seen.set()

        following = asyncio.create_task(follow())
        await journals.append("shop/orders", b"a" * 20, timeout=WAIT_S)
        await cluster.stop(cluster.primary("shop/orders"))
        await journals.append("shop/orders", b"b" * 20, timeout=WAIT_S)
        async with asyncio.timeout(WAIT_S):
            await all_seen.wait()
        following.cancel()
        assert bytes(shown) == b"a" * 20 + b"b" * 20


async def test_registers_fence_a_writer_which_was_replaced(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        await journals.append("shop/orders", b"1", union={"author": "old"})
        taken = await journals.append(
            "shop/orders", b"2", check="author=old", union={"author": "new"}, subtract={"author": "old"}
        )
        assert str(taken.registers) == "author=new"
        with pytest.raises(PreconditionFailed, match="registers do not match") as refused:
            await journals.append("shop/orders", b"3", check="author=old")
        assert refused.value.details["registers"] == "author=new"
        with pytest.raises(PreconditionFailed, match="ends at another offset") as wrong:
            await journals.append("shop/orders", b"3", offset=Offset(1))
        assert wrong.value.details["end"] == 2
        await journals.append("shop/orders", b"3", offset=Offset(2))
        await see(cluster, journals, b"123")


async def test_a_transaction_which_is_sent_again_takes_effect_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        first = await journals.append("shop/orders", b"once", txn=Txn("me", 1))
        again = await journals.append("shop/orders", b"once", txn=Txn("me", 1))
        assert (first.begin, first.end, first.sum) == (again.begin, again.end, again.sum)
        await journals.append("shop/orders", b"twice", txn=Txn("me", 2))
        with pytest.raises(PreconditionFailed, match="later transaction"):
            await journals.append("shop/orders", b"once", txn=Txn("me", 1))
        await see(cluster, journals, b"oncetwice")


async def test_appends_with_a_transaction_go_on_with_the_next_primary(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 4) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)

        async def write(writer: str) -> None:
            for seq in range(1, 21):
                await journals.append(
                    "shop/orders", f"{writer}{seq:02d} ".encode(), txn=Txn(writer, seq), timeout=WAIT_S
                )

        writing = asyncio.gather(*(write(writer) for writer in "abcdefgh"))
        await journals.append("shop/orders", b"", timeout=WAIT_S)
        await cluster.stop(cluster.primary("shop/orders"))
        await writing
        shown = (await read_all(journals, "shop/orders")).decode().split()
        for writer in "abcdefgh":
            assert [word for word in shown if word[0] == writer] == [f"{writer}{seq:02d}" for seq in range(1, 21)]


async def test_a_whole_cluster_is_restarted_one_by_one_and_loses_nothing(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 4) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        written = bytearray()
        is_done = False

        async def write() -> None:
            number = 0
            while not is_done:
                number += 1
                content = f"{number},".encode()
                await journals.append("shop/orders", content, txn=Txn("w", number), timeout=WAIT_S)
                written.extend(content)

        writing = asyncio.create_task(write())
        for name in list(cluster.brokers):
            await cluster.stop(name, drains=True)
            await cluster.start(name)
        is_done = True
        await writing
        assert await read_all(journals, "shop/orders") == written


async def test_journals_are_listed_by_selector_changed_and_deleted(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS_EU, JournalSpec(name="shop/refunds", replication=1))
        assert [each.spec.name for each in await journals.list()] == ["shop/orders-eu", "shop/refunds"]
        found = await journals.list("region=eu")
        assert [each.spec.labels for each in found] == [ORDERS_EU.labels]
        assert found[0].primary is not None
        watching = journals.watch("name:prefix=shop/")
        assert len(await anext(watching)) == 2
        with pytest.raises(PreconditionFailed, match="it was changed meanwhile"):
            await journals.apply([Change(upsert=ORDERS_EU, expect_mod_revision=1)])
        changed = JournalSpec(name="shop/orders-eu", replication=1, flags=Flags.READ_ONLY)
        await journals.apply([Change(upsert=changed, expect_mod_revision=found[0].mod_revision)])
        with pytest.raises(Forbidden, match="read-only"):
            await journals.append("shop/orders-eu", b"no")
        await journals.apply([Change(delete="shop/refunds")])
        async with asyncio.timeout(WAIT_S):
            async for seen in watching:
                if len(seen) == 1:
                    break
        with pytest.raises(NotFound, match="no journal"):
            await journals.append("shop/refunds", b"gone")
        with pytest.raises(NotFound):
            await journals.apply([Change(delete="shop/refunds")])
        await watching.aclose()  # type: ignore[attr-defined]


async def test_a_journal_without_enough_brokers_says_so_and_what_to_ask(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 2) as cluster, cluster.client() as journals:
        await journals.create(ORDERS)
        with pytest.raises(Unavailable, match=r"nothing was written|no broker is the primary") as refused:
            await journals.append("shop/orders", b"x", timeout=1.0)
        assert "explain shop/orders" in refused.value.next_step
        async with asyncio.timeout(WAIT_S):
            lines: list[str] = []
            while not any("2 of 3 brokers serve it" in line for line in lines):
                explained = await journals.explain("shop/orders")
                lines = [line for each in explained if not isinstance(each, Exception) for line in each.lines]
                await asyncio.sleep(0)
        await cluster.start("b3")
        assert (await journals.append("shop/orders", b"x", timeout=WAIT_S)).end == 1


async def test_bad_questions_are_refused_at_the_edge(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS_EU)
        with pytest.raises(InvalidArgument, match="clean path"):
            await journals.append("a//b", b"")
        with pytest.raises(InvalidArgument, match="offset -2"):
            await anext(journals.read("shop/orders-eu", -2))
        with pytest.raises(InvalidArgument, match="replication 9"):
            await journals.create(JournalSpec(name="shop/nine", replication=9))
        with pytest.raises(InvalidArgument, match="timeout"):
            await journals.append("shop/orders-eu", b"", timeout=0)
        with pytest.raises(InvalidArgument, match="at least one broker"):
            Journals([])
        with pytest.raises(Forbidden, match="registers change together with content"):
            await journals.append("shop/orders-eu", b"", union={"author": "me"})
        with pytest.raises(Forbidden, match="not lost"):
            await journals.reset_head("shop/orders-eu")


async def test_resolve_tells_what_became_of_an_append(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS_EU)
        done = await journals.append("shop/orders-eu", b"12345")
        found = await journals.resolve("shop/orders-eu", done.epoch, done.begin, done.end)
        assert found is Resolution.COMMITTED
        never = await journals.resolve("shop/orders-eu", done.epoch, 5, 99, timeout=0.01)
        assert never is Resolution.PENDING
        assert done.epoch > PipelineEpoch(Revision(0), 0)


async def test_a_client_which_loses_its_broker_is_told_that_the_fate_is_unknown(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 3) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        primary = cluster.primary("shop/orders")
        # Without its peers no append is ever acknowledged: a waiting client loses the broker first.
        for name in [name for name in cluster.brokers if name != primary]:
            cluster.hosts("shop/orders")[name].send = lambda *_: None
        host = cluster.hosts("shop/orders")[primary]
        is_proposed, send = asyncio.Event(), host.send

        def watch(peer: NodeId, message: object) -> None:
            send(peer, message)
            if isinstance(message, ProposeRequest):
                is_proposed.set()

        host.send = watch
        appending = asyncio.create_task(journals.append("shop/orders", b"x", timeout=WAIT_S))
        async with asyncio.timeout(WAIT_S):
            await is_proposed.wait()
        await cluster.stop(primary)
        with pytest.raises(Indeterminate):
            await appending


def test_a_chunk_knows_where_it_ends() -> None:
    assert Chunk(Offset(3), b"abc", Fragment("shop/orders"), Offset(9)).end == 6


async def test_a_cluster_which_was_stopped_in_order_goes_on_where_it_was(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.create(ORDERS)
        async with cluster.client() as journals:
            await journals.append("shop/orders", b"before ")
        names = list(cluster.brokers)
        await asyncio.gather(*(cluster.stop(name, drains=True) for name in names))
        await asyncio.gather(*(cluster.start(name) for name in names))
        async with cluster.client() as journals:
            done = await journals.append("shop/orders", b"after", timeout=WAIT_S)
            assert done.begin == 7
            await see(cluster, journals, b"before after")


async def test_appends_which_travel_together_are_refused_together_and_each_is_told(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name="shop/orders", replication=1))
        [info] = await journals.list()
        read_only = msgspec.structs.replace(info.spec, flags=Flags.READ_ONLY)
        await journals.apply([Change(upsert=read_only, expect_mod_revision=info.mod_revision)])
        appends = [journals.append("shop/orders", b"x" * size) for size in range(1, 9)]
        refused = await asyncio.gather(*appends, return_exceptions=True)
        assert [type(each) for each in refused] == [Forbidden] * 8
        assert await read_all(journals, "shop/orders") == b""


async def test_what_a_client_has_made_is_found_through_a_broker_which_lags(tmp_path: Path) -> None:
    """The broker is asked for a revision, and learns of it only because a request waits for it."""
    async with running_cluster(tmp_path, 2) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name="shop/early", replication=1))
        await journals.list()
        lagging = cluster.brokers["b2"]
        await deaf(lagging)
        journals._addresses = [cluster.brokers["b1"].address]
        revision = await journals.create(JournalSpec(name="shop/late", replication=2))
        assert not lagging.server.mirror.has_revision(revision)
        journals._addresses = [lagging.address]
        assert [each.spec.name for each in await journals.list("name=shop/late")] == ["shop/late"]


async def test_an_append_waits_until_its_broker_has_heard_of_the_journal(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 2) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name="shop/early", replication=1))
        lagging = cluster.brokers["b2"]
        await deaf(lagging)
        journals._addresses = [cluster.brokers["b1"].address]
        revision = await journals.create(JournalSpec(name="shop/late", replication=2))
        async with Channel(lagging.address, limits=BROKER_LIMITS) as channel:
            found = []
            for min_revision in (Revision(0), revision):
                stream = await AppendStream.open(channel, "shop/late", timeout_s=WAIT_S, min_revision=min_revision)
                number = stream.begin()
                stream.send(number, b"x", PartKind.COMMIT, AppendWish(int(WAIT_S * 1_000)))
                found.append((await stream.answered_within(number, WAIT_S)).response.status)
                stream.close()
        assert found[0] is Status.JOURNAL_NOT_FOUND  # as far as that broker knew
        assert found[1] in (Status.OK, Status.NOT_JOURNAL_PRIMARY_BROKER, Status.NO_JOURNAL_PRIMARY_BROKER)


async def deaf(broker: RunningBroker) -> None:
    """End its watch of the KeySpace: it learns only by asking."""
    following = broker.server.mirror._following
    assert following is not None
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_an_append_which_is_not_answered_in_time_is_lost_and_taken_back(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.create(msgspec.structs.replace(ORDERS, replication=1))
        async with Channel(cluster.addresses[0], limits=BROKER_LIMITS) as channel:
            stream = await AppendStream.open(channel, "shop/orders", timeout_s=WAIT_S)
            number, patient = stream.begin(), stream.begin()
            wish = AppendWish(int(WAIT_S * 1_000))
            stream.send(number, b"begun", PartKind.MORE, wish)
            with pytest.raises(Lost) as caught:
                await stream.answered_within(number, 0.01)
            assert not caught.value.was_sent
            stream.send(patient, b"whole", PartKind.COMMIT, wish)  # it gets its turn: the other was taken back
            response = (await stream.answered_within(patient, WAIT_S)).response
            assert response.commit is not None
            assert (response.commit.begin, response.commit.end) == (0, 5)
            stream.close()
