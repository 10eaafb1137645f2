"""A broker's metrics for Prometheus."""

from pathlib import Path

from tests.journals.broker.cluster import running_cluster

from penstock.journals.records.spec import JournalSpec
from penstock.plumbing.process.metrics import exposition


def figures() -> dict[str, float]:
    text, _ = exposition()
    lines = [line.rsplit(" ", 1) for line in text.decode().splitlines() if line.startswith("penstock_journal_")]
    return {name.removeprefix("penstock_journal_"): float(value) for name, value in lines}


async def test_a_scrape_shows_what_each_broker_serves(tmp_path: Path) -> None:
    before = figures()  # other tests of this process may have brokers of the same names
    async with running_cluster(tmp_path, 2) as cluster:
        await cluster.create(JournalSpec(name="shop/orders", replication=2))
        found = {name: value - before.get(name, 0) for name, value in figures().items()}
        names = [f'{{broker="local#{name}"}}' for name in cluster.brokers]
        assert [found["journals" + name] for name in names] == [1, 1]
        assert sorted(found["primaries" + name] for name in names) == [0, 1]
        assert {found["failed_replicas" + name] for name in names} == {0}
        assert {found["appends_waiting" + name] for name in names} == {0}
        assert {found["unstored_bytes" + name] for name in names} == {0}
    after = figures()
    assert {name for name in after if name.startswith("primaries") and after[name]} == {
        name for name in before if name.startswith("primaries") and before[name]
    }
