"""Brokers on a real etcd: the same journals, another KeySpace."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.journals.broker.cluster import WAIT_S, read_all, running_cluster
from tests.keyspace.shell.etcd.server import EtcdServer

from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import JournalSpec


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    server = EtcdServer(tmp_path / "etcd")
    server.start()
    try:
        yield server
    finally:
        server.kill()


async def test_appends_survive_a_broker_and_etcd_itself(tmp_path: Path, etcd: EtcdServer) -> None:
    async with running_cluster(tmp_path, 3, etcd=etcd.address) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name="shop/orders", replication=2))
        await journals.append("shop/orders", b"one ", txn=Txn("me", 1))
        await cluster.stop(cluster.primary("shop/orders"))
        await journals.append("shop/orders", b"two ", txn=Txn("me", 2), timeout=WAIT_S)
        etcd.kill()
        await journals.append(
            "shop/orders", b"three ", txn=Txn("me", 3), timeout=WAIT_S
        )  # a pipeline needs no KeySpace
        etcd.start()
        await journals.append("shop/orders", b"four", txn=Txn("me", 4), timeout=WAIT_S)
        assert await read_all(journals, "shop/orders") == b"one two three four"
