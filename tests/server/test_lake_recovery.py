"""A queue that is lost: a new one begins with the newest checkpoint, and names what may be missing (L-17)."""

from pathlib import Path

import pytest
from tests.lake.member.lakes import SECRET
from tests.quorum.node.cluster import running_cluster

from penstock.kernel.errors import AlreadyExists, InvalidArgument, NotFound, ShuttingDown
from penstock.lake.member.quorum_queue import QuorumQueue
from penstock.lake.member.services.lake_service import LakeService, serving_lake
from penstock.plumbing.objects import ObjectStore, open_store
from penstock.quorum.client.quorum import QuorumLog
from penstock.server.lake_recovery import EPOCHS, recover

PAGE = "_penstock/lake/main/"


async def keys(store: ObjectStore, folder: str) -> list[str]:
    return [meta.key async for page in store.list(folder) for meta in page.objects]


async def text(lake: LakeService, path: str, ref: str = "main") -> bytes:
    async with lake.open("shop", ref, path) as reading:
        return b"".join([bytes(chunk) async for chunk in reading.chunks])


@pytest.mark.parametrize("into", ["main-2", "main"])
async def test_a_new_queue_begins_with_the_newest_checkpoint(tmp_path: Path, into: str) -> None:
    url = f"file://{tmp_path}/objects"
    async with open_store(url) as store:
        async with running_cluster(tmp_path / "lost", 1) as cluster:
            addresses = list(cluster.addresses.values())
            async with QuorumLog(addresses, "main") as log:
                async with serving_lake(QuorumQueue(log), store, url, secret=SECRET, name="m1") as lake:
                    await lake.create_repository("shop")
                    await lake.put("shop", "main", "kept", b"1")
                    kept = await lake.commit("shop", "main", "kept")
                    await lake.put("shop", "main", "staged", b"2")
                    old_place = await lake.upload_address("shop", "main", "late")
                known = await keys(store, PAGE)
            async with QuorumLog(addresses, "main") as log:
                async with serving_lake(QuorumQueue(log), store, url, secret=SECRET, name="m1") as lake:
                    await lake.put("shop", "main", "late", b"3")
                    late = await lake.commit("shop", "main", "late")
                await store.delete(*(set(await keys(store, PAGE)) - set(known)))
                found = await recover(store, url, "main", into)
                assert (found.repositories, found.branches, found.staged_rows, found.lost_heads) == (1, 1, 1, ())
                assert [(each.commit, each.message) for each in found.late_commits] == [(late.id, "late")]
                assert found.late_objects == 1
                # A member on the old queue finds records from before the recovery, and stops.
                with pytest.raises(ShuttingDown, match="records from before"):
                    async with serving_lake(QuorumQueue(log), store, url, secret=SECRET, shard=into):
                        pass
        async with (
            running_cluster(tmp_path / "new", 1) as cluster,
            QuorumLog(list(cluster.addresses.values()), "main") as log,
            serving_lake(QuorumQueue(log), store, url, secret=SECRET, shard=into, name="m1") as lake,
        ):
            assert (await lake.branch("shop", "main")).commit == kept.id
            assert (await text(lake, "kept"), await text(lake, "staged")) == (b"1", b"2")
            with pytest.raises(NotFound):
                await lake.head("shop", "main", "late")
            made = await lake.put("shop", "main", "new", b"4")
            assert f"data/{EPOCHS + 1:08d}/" in made.address
            with pytest.raises(Exception, match="upload again"):
                await lake.link("shop", "main", "late", old_place.address, size=1, etag="x")
            await lake.hard_reset("shop", "main", late.id)
            assert await text(lake, "late") == b"3"
        assert any("/main.before-" in key for key in await keys(store, "_penstock/")) is (into == "main")


async def test_a_recovery_that_cannot_be(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/objects"
    async with open_store(url) as store, running_cluster(tmp_path / "quorum", 1) as cluster:
        with pytest.raises(NotFound, match="the store has none below _penstock/lake/main/"):
            await recover(store, url, "main", "other")
        async with (
            QuorumLog(list(cluster.addresses.values()), "main") as log,
            serving_lake(QuorumQueue(log), store, url, secret=SECRET) as lake,
        ):
            await lake.create_repository("shop")
            head = (await lake.branch("shop", "main")).commit
        await store.put("_penstock/lake/used/x", b"")
        with pytest.raises(AlreadyExists):
            await recover(store, url, "main", "used")
        with pytest.raises(InvalidArgument):
            await recover(store, url, "main", "a/b")
        lost = [key for key in await keys(store, "shop/") if head in key]
        await store.delete(*lost)
        assert (await recover(store, url, "main", "other")).lost_heads == ("shop@main",)
