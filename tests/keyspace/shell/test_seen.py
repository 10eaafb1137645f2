"""A member refuses a KeySpace that went back, whole folder and witness alike."""

import shutil
from pathlib import Path

import pytest
from tests.journals.broker.cluster import running_cluster

from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import KeySpaceForgot


async def test_a_broker_refuses_yesterdays_keyspace_and_another_one(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.create(JournalSpec(name="shop/orders", replication=1))
        await cluster.stop("b1")
        shutil.copytree(tmp_path / "keyspace", tmp_path / "yesterday")
        await cluster.start("b1")
        await cluster.create(JournalSpec(name="shop/more", replication=1))
        await cluster.stop("b1")
        (tmp_path / "keyspace").rename(tmp_path / "today")
        shutil.copytree(tmp_path / "yesterday", tmp_path / "keyspace")
        with pytest.raises(KeySpaceForgot, match=r"has seen \d+: an older copy of it was put back"):
            await cluster.start("b1")
        shutil.rmtree(tmp_path / "keyspace")
        with pytest.raises(KeySpaceForgot, match="belongs to"):
            await cluster.start("b1")
        shutil.rmtree(tmp_path / "keyspace")
        (tmp_path / "today").rename(tmp_path / "keyspace")
        await cluster.start("b1")
        async with cluster.client() as journals:
            assert [each.spec.name for each in await journals.list()] == ["shop/more", "shop/orders"]
