"""Five real brokers, killed, frozen, robbed of their leases and restarted under append load, on both KeySpaces.

A short drill of each; `make soak-journal` runs all faults for minutes.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.journal_drill import Fault, brokers_on, drill_on
from tests.integration.journal_faults import (
    drop_all_leases,
    drop_the_lease_of_the_primary,
    freeze_the_primary,
    kill_the_primary_while_fates_are_open,
    restart_every_broker,
)

from penstock.server.cluster.local import LocalCluster

pytestmark = pytest.mark.timeout(300)
FAULTS: dict[str, tuple[Fault, ...]] = {
    "embedded": (kill_the_primary_while_fates_are_open, drop_the_lease_of_the_primary, restart_every_broker),
    "etcd": (freeze_the_primary, drop_all_leases),
}


@pytest.fixture(params=FAULTS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cluster(tmp_path: Path, kind: str) -> Iterator[LocalCluster]:
    with brokers_on(kind, tmp_path) as cluster:
        yield cluster


async def test_acknowledged_appends_survive_faults_once_and_everywhere(cluster: LocalCluster, kind: str) -> None:
    drill = await drill_on(cluster, "shop/orders", FAULTS[kind])
    content = await drill.audit_stopped()
    assert len(content) >= sum(map(len, drill.committed))
    if kind == "embedded":
        assert drill.resolved, "no fate was open: `resolve` was not asked"
