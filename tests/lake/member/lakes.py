"""Lakes for tests: real members on a real quorum node and a real folder, in one process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.quorum.node.cluster import Cluster, running_cluster

from penstock.lake.member.quorum_queue import QuorumQueue
from penstock.lake.member.services.lake_service import LakeService, serving_lake
from penstock.plumbing.objects import open_store
from penstock.quorum.client.quorum import QuorumLog

SECRET = "a secret of the tests"


@asynccontextmanager
async def member_of(
    cluster: Cluster, folder: Path, name: str, *, checkpoint_span: int | None = None
) -> AsyncIterator[LakeService]:
    """Another member of the lake on this cluster, whose objects are in the folder."""
    url = f"file://{folder}/objects"
    async with (
        QuorumLog(list(cluster.addresses.values()), "main") as log,
        open_store(url) as store,
        serving_lake(QuorumQueue(log), store, url, secret=SECRET, name=name, checkpoint_span=checkpoint_span) as lake,
    ):
        yield lake


@asynccontextmanager
async def running_lake(folder: Path) -> AsyncIterator[LakeService]:
    """A lake with one member on one node."""
    async with running_cluster(folder / "quorum", 1) as cluster, member_of(cluster, folder, "m1") as lake:
        yield lake
