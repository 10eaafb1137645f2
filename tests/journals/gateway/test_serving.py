from pathlib import Path

from tests.journals.broker.cluster import running_cluster
from tests.plumbing.http.harness import connect

from penstock.journals.gateway import serving_journals
from penstock.journals.records.spec import JournalSpec


async def test_a_gateway_serves_the_journals_of_its_brokers(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.create(JournalSpec(name="shop/orders", replication=1))
        async with serving_journals(cluster.addresses) as server, connect(server) as client:
            put = await client.ask(b"PUT /journal/shop/orders HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello")
            got = await client.ask(b"GET /journal/shop/orders HTTP/1.1\r\n\r\n")
    assert (put.status, got.body) == (204, b"hello")
