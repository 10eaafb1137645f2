"""A lake of real processes, killed under load: nothing acknowledged is lost. The long drill is `make soak-lake`."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.lake_drill import Load, Members, under_load

from penstock.server.cluster.local import LocalCluster

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    cluster = LocalCluster.create(tmp_path / "cluster", nodes=1, machine="log")
    members = Members(tmp_path, cluster, 2)
    try:
        cluster.start_all()
        members.start_all()
        yield members
    finally:
        members.kill_all()
        cluster.stop_all()


async def test_kill_9_of_one_and_then_of_all_together_loses_nothing_acknowledged(members: Members) -> None:
    """Members, node and operator: everything acknowledged before exists when they come back."""

    async def drill(load: Load) -> None:
        await load.more(10)
        members.signal(members.ports[0], signal.SIGKILL)
        await load.more(10)  # the other one serves on
        members.kill_all()
        for each in members.cluster.plan.processes:
            members.cluster.kill(each.name)
        members.cluster.start_all()
        members.start_all()
        await load.more(10)

    load = await under_load(members, "all", drill)
    assert load.lost_answers > 0  # they were killed while they were asked
