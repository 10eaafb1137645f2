"""A store that takes nothing: the fragments that wait have a bound, where appends are slowed and then refused."""

import asyncio
from pathlib import Path

import pytest
from tests.journals.broker.cluster import WAIT_S, Cluster, read_all, running_cluster

from penstock.journals.broker.spools.unstored import Unstored
from penstock.journals.client.journal import Journals
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import Overloaded
from penstock.kernel.ids import SECOND, NodeId

BOUND = 64 << 10
ORDERS = "shop/orders"


def spec_of(replication: int, name: str = ORDERS) -> JournalSpec:
    return JournalSpec(name=name, replication=replication, fsync=True, fragment=FragmentSpec(length=1 << 10))


async def append_until_refused(journals: Journals) -> tuple[bytes, Overloaded]:
    acknowledged = b""
    for number in range(200):
        content = b"%04d" % number * 4_096
        try:
            await journals.append(ORDERS, content, timeout=1.0)  # it tries again for so long
        except Overloaded as error:
            return acknowledged, error
        acknowledged += content
    raise AssertionError("more waits for the store than may")


async def until_appended(journals: Journals, content: bytes) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                await journals.append(ORDERS, content, timeout=1.0)
            except Overloaded:
                continue  # a broker looks each second
            return


def unstored(cluster: Cluster) -> dict[str, int]:
    return {name: broker.server.unstored.bytes for name, broker in cluster.brokers.items()}


@pytest.mark.parametrize("replication", [1, 3])
async def test_appends_are_refused_at_the_bound_and_taken_again_when_the_store_is_back(
    tmp_path: Path, replication: int
) -> None:
    """J-3: appends were taken until the disk was full."""
    objects = tmp_path / "objects"
    objects.write_bytes(b"in the way of the store")
    async with running_cluster(tmp_path, replication, unstored_bytes_max=BOUND) as cluster:
        await cluster.create(spec_of(replication))
        async with cluster.client() as journals:
            acknowledged, error = await append_until_refused(journals)
            assert "the store has taken nothing for" in str(error)
            assert "File exists" in str(error)
            assert "nothing was written" in str(error)
            assert all(BOUND <= waiting < BOUND + 16_000 for waiting in unstored(cluster).values())
            assert await read_all(journals, ORDERS) == acknowledged
            objects.unlink()
            for broker in cluster.brokers.values():
                broker.server.persister.hasten()
            await until_appended(journals, b"again")
            assert await read_all(journals, ORDERS) == acknowledged + b"again"
            async with asyncio.timeout(WAIT_S):
                for broker in cluster.brokers.values():
                    broker.server.persister.hasten()
                    await broker.server.persister.stored()
            assert set(unstored(cluster).values()) == {0}


async def test_journals_without_stores_are_not_refused(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, unstored_bytes_max=BOUND, default_store="") as cluster:
        await cluster.create(spec_of(1))
        async with cluster.client() as journals:
            for _ in range(40):
                await journals.append(ORDERS, b"x" * 2_048)
        assert unstored(cluster) == {"b1": 0}


def test_above_four_fifths_content_is_taken_at_the_rate_of_the_store() -> None:
    now = [0]
    waiting = Unstored(NodeId("b1"), 1_000_000, lambda: now[0])
    waiting.submitted(799_999)
    waiting.took(100_000)
    assert waiting.wait_ns() == 0
    waiting.submitted(100_001)
    for _ in range(10):
        now[0] += SECOND
        waiting.ended(3_000, is_stored=True)
        waiting.submitted(3_000)
    assert waiting.wait_ns() == 0
    waiting.took(10_000)
    assert 9 * SECOND < waiting.wait_ns() < 11 * SECOND  # 30,000 bytes in 30 s are 1,000 a second
    now[0] += 40 * SECOND
    waiting.took(10_000)
    assert 15 * SECOND < waiting.wait_ns() < 40 * SECOND  # nothing stored: a fifth of the bound in ten minutes
