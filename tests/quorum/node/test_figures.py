"""What Prometheus is told of a replica."""

from pathlib import Path

from tests.quorum.node.cluster import running_cluster

from penstock.plumbing.process.metrics import exposition
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.core.machines.builtin import Put, encode_op


def figures(prefix: str) -> dict[str, float]:
    text, _ = exposition()
    lines = [line.rsplit(" ", 1) for line in text.decode().splitlines() if line.startswith(prefix)]
    return {name: float(value) for name, value in lines}


async def test_a_scrape_shows_the_shard_its_log_and_its_connections(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        async with QuorumLog(list(cluster.addresses.values()), "main", client_id="figures") as log:
            appended = await log.append(encode_op(Put("a", b"1")), ack="all", timeout=20)
        # All three nodes live in this process, so that each figure is the sum over them.
        quorum = figures("penstock_quorum_")
        assert quorum['penstock_quorum_is_leader{shard="main"}'] == 1
        assert quorum['penstock_quorum_durable{shard="main"}'] >= 3 * appended.entry.offset
        assert quorum['penstock_quorum_epoch{shard="main"}'] == 3
        assert quorum['penstock_quorum_answers_committed_total{shard="main"}'] >= 1
        assert quorum['penstock_quorum_is_failed{shard="main"}'] == 0
        assert quorum['penstock_quorum_limbo_bytes{shard="main"}'] == 0
        wire = figures("penstock_wire_")
        assert wire['penstock_wire_connections_now{side="server"}'] > 0
        assert wire['penstock_wire_streams_total{side="client"}'] > 0
        folders = [name for name, value in figures("penstock_wal_records_total").items() if value > 0]
        assert len([name for name in folders if str(tmp_path) in name]) == 3
    after = figures("penstock_quorum_")
    assert after.get('penstock_quorum_is_leader{shard="main"}', 0) == 0
