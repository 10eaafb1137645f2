"""The append service: many small appends, few large ones, in order, through an outage."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.journals.broker.cluster import WAIT_S, read_all, running_cluster

from penstock.journals.client.append_service import AppendService
from penstock.journals.client.journal import Appended
from penstock.journals.client.named_journal import AsyncJournal
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import AlreadyClosed, DeadlineExceeded, InvalidArgument, NotFound, Unavailable

# With fsync, since the only broker is restarted here and must come back with its content.
ORDERS = JournalSpec(name="shop/orders", replication=1, fsync=True)


async def test_many_small_appends_become_few_and_each_knows_its_place(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        async with AppendService(journals) as service:
            contents = [f"{number},".encode() for number in range(2_000)]
            done = await asyncio.gather(*(service.append("shop/orders", content) for content in contents))
        shown = await read_all(journals, "shop/orders")
        assert shown == b"".join(contents)
        assert all(shown[each.begin : each.end] == content for each, content in zip(done, contents, strict=True))
        pipeline = next(iter(cluster.hosts("shop/orders").values())).replica.pipeline
        assert pipeline is not None
        assert pipeline.seq < 100


async def test_an_outage_is_outlived_in_a_bounded_file_and_order_is_kept(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        limits = {"batch_bytes": 1_000, "memory_bytes_max": 4_000, "spool_bytes_max": 16_000}
        async with AppendService(journals, spool_folder=tmp_path, attempt_s=1.0, **limits) as service:  # type: ignore[arg-type]
            await service.append("shop/orders", b"before,")
            await cluster.stop("b1")
            contents = [b"%04d," % number + b"x" * 95 for number in range(300)]
            done: list[asyncio.Future[Appended]] = []
            while not service.is_full:
                done.append(service.put("shop/orders", contents[len(done)]))
            with pytest.raises(Unavailable, match="too much waits"):
                service.put("shop/orders", b"no")
            assert 15_000 < service.waiting_bytes <= 20_100
            late = asyncio.create_task(service.append("shop/orders", b"late,"))
            await cluster.start("b1")
            async with asyncio.timeout(WAIT_S):
                await asyncio.gather(late, *done)
            assert service.waiting_bytes == 0
        assert await read_all(journals, "shop/orders") == b"before," + b"".join(contents[: len(done)]) + b"late,"


async def test_a_definite_refusal_fails_its_own_appends_only(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        async with AppendService(journals) as service:
            with pytest.raises(NotFound):
                await service.append("shop/missing", b"x")
            assert (await service.append("shop/orders", b"y")).end == 1
        with pytest.raises(AlreadyClosed):
            service.put("shop/orders", b"z")


async def test_settings_which_cannot_work_are_refused(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        with pytest.raises(InvalidArgument, match="batch_bytes"):
            AppendService(journals, batch_bytes=0)
        with pytest.raises(InvalidArgument, match="txn writer"):
            AppendService(journals, writer="no blanks")


async def test_appends_that_no_broker_takes_say_why_and_fail_together(tmp_path: Path) -> None:
    """J-17: a publisher on a journal with too few brokers, or without any, waited for ever and said nothing."""
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await AsyncJournal(journals, "shop/three").create(replication=3)
        with capture_logs() as logs:
            async with AppendService(journals, patience_s=1.0, attempt_s=0.2, batch_bytes=10) as service:
                waiting = [service.put("shop/three", b"first"), service.put("shop/three", b"x" * 9)]
                failed = await asyncio.gather(*waiting, return_exceptions=True)
            assert service.waiting_bytes == 0
        assert [type(each) for each in failed] == [Unavailable, Unavailable]
        for each in failed:
            assert isinstance(each, Unavailable)
            assert each.message.startswith("shop/three took no append for 1 s: ")
            assert each.next_step == "penstock journals explain shop/three"
        told = [line for line in logs if line["event"] == "journal takes no appends"]
        assert 1 <= len(told) <= 4
        assert told[0]["journal"] == "shop/three"
        assert "broker" in told[0]["reason"]


async def test_a_publisher_without_brokers_ends_in_time(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        orders = await AsyncJournal(journals, "shop/orders").create()
        await orders.append(b"")
        await cluster.stop("b1")
        publisher = orders.publisher(patience=1.0)
        with pytest.raises((Unavailable, DeadlineExceeded), match="shop/orders took no append for 1 s"):
            async with publisher as publish:
                await publish({"n": 1})


async def test_a_spool_that_cannot_be_written_loses_nothing(tmp_path: Path) -> None:
    """J-17: it raised OSError, and counted the appends for ever."""
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(ORDERS)
        await cluster.stop("b1")
        nowhere = tmp_path / "no" / "folder"
        async with AppendService(journals, spool_folder=nowhere, batch_bytes=1_000, memory_bytes_max=4_000) as service:
            contents = [b"%04d," % number + b"x" * 95 for number in range(100)]
            done: list[asyncio.Future[Appended]] = []
            while not service.is_full:
                done.append(service.put("shop/orders", contents[len(done)]))
            assert 4_000 <= service.waiting_bytes < 6_000
            await cluster.start("b1")
            async with asyncio.timeout(WAIT_S):
                await asyncio.gather(*done)
            assert service.waiting_bytes == 0
        assert await read_all(journals, "shop/orders") == b"".join(contents[: len(done)])
