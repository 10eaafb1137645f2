"""The garbage collector on a real lake: what nothing refers to goes, after two runs; everything else stays."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.lake.member.lakes import running_lake

from penstock.kernel.errors import Gone, NotFound, Overloaded
from penstock.lake.core.staging.records import CommitId
from penstock.lake.member.services.lake_service import LakeService
from penstock.lake.records.service import Progress


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[LakeService]:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        yield lake


async def put(lake: LakeService, path: str, content: bytes, branch: str = "main") -> str:
    """Put an object; the store's key of its bytes."""
    return (await lake.put("shop", branch, path, content)).key


async def is_there(lake: LakeService, key: str) -> bool:
    try:
        await lake.store.head(key)
    except NotFound:
        return False
    return True


async def collect(lake: LakeService, runs: int = 1) -> int:
    """Return how many objects went."""
    return sum([(await lake.collect_garbage("shop", grace_s=0)).objects for _ in range(runs)])


async def read(lake: LakeService, ref: str, path: str) -> bytes:
    async with lake.open("shop", ref, path) as reading:
        return b"".join([bytes(chunk) async for chunk in reading.chunks])


async def test_what_was_overwritten_goes_and_what_is_shown_or_committed_stays(lake: LakeService) -> None:
    lost, kept = await put(lake, "a", b"old"), await put(lake, "a", b"new")
    deleted = await put(lake, "b", b"committed, then deleted")
    await lake.commit("shop", "main", "first")
    await lake.delete("shop", "main", ["b"])
    staged = await put(lake, "c", b"staged")
    await lake.create_tag("shop", "v1", "main")
    assert await collect(lake) == 0  # young, and found by no run before
    assert await collect(lake) == 1
    assert not await is_there(lake, lost)
    assert await collect(lake, 3) == 0
    for key in (kept, deleted, staged):
        assert await is_there(lake, key)
    assert await read(lake, "v1", "b") == b"committed, then deleted"
    assert await read(lake, "main", "c") == b"staged"
    assert [each.path for each in (await lake.list("shop", "main@")).results] == ["a", "b"]


async def test_commits_without_a_branch_are_given_up_with_all_they_had(lake: LakeService) -> None:
    await put(lake, "a", b"1")
    first = (await lake.commit("shop", "main", "first")).id
    await lake.create_branch("shop", "work", "main")
    doomed = await put(lake, "b", b"2", "work")
    second = (await lake.commit("shop", "work", "second")).id
    await lake.delete_branch("shop", "work")
    assert (await lake.get_commit("shop", second)).message == "second"  # still there for who knows it
    assert await collect(lake, 2) == 0
    assert await read(lake, second, "b") == b"2"
    assert await collect(lake) == 0  # given up, for ever
    assert await is_there(lake, doomed)
    assert await collect(lake) == 4  # its data, its pack, its index pack, its root
    assert not await is_there(lake, doomed)
    with pytest.raises(Gone):
        await lake.create_branch("shop", "again", second)
    with pytest.raises(Gone):
        await lake.get_commit("shop", second)
    assert await read(lake, first, "a") == b"1"


async def test_who_comes_to_refer_to_it_in_time_keeps_it(lake: LakeService) -> None:
    await lake.create_branch("shop", "work", "main")
    await put(lake, "b", b"2", "work")
    second = (await lake.commit("shop", "work", "second")).id
    await lake.delete_branch("shop", "work")
    await collect(lake, 2)

    def watch(progress: Progress) -> None:
        if progress.phase == "condemning":  # as if another member had referred to it just now
            lake.engine.machine.touch(lake.engine.known_repository("shop"), CommitId(second))

    with pytest.raises(Overloaded, match="nothing was swept"):
        await lake.collect_garbage("shop", grace_s=0, watch=watch)
    await lake.create_branch("shop", "again", second)
    assert await collect(lake, 4) == 0
    assert await read(lake, "again", "b") == b"2"


async def test_an_upload_two_runs_old_is_refused_not_lost(lake: LakeService) -> None:
    place = await lake.upload_address("shop", "main", "slow")
    await lake.store.put(place.key, b"slowly")
    young = await lake.upload_address("shop", "main", "quick")
    await lake.store.put(young.key, b"quickly")
    await collect(lake)
    linked = await lake.link("shop", "main", "quick", young.address, size=7, etag="x")
    assert linked.path == "quick"
    await collect(lake)
    with pytest.raises(Gone, match="upload again"):
        await lake.link("shop", "main", "slow", place.address, size=6, etag="x")
    assert not await is_there(lake, place.key)
    assert await read(lake, "main", "quick") == b"quickly"


async def test_the_grace_period_holds_and_a_dry_run_changes_nothing(lake: LakeService) -> None:
    lost = await put(lake, "a", b"old")
    await put(lake, "a", b"new")
    found = await lake.find_garbage("shop")
    assert (found.objects, found.too_young, found.is_dry_run) == (0, 1, True)
    for _ in range(4):
        assert (await lake.collect_garbage("shop", grace_s=3600)).objects == 0
    found = await lake.find_garbage("shop")
    assert (found.objects, found.examples) == (1, (lost.removeprefix("shop/"),))
    phases: list[str] = []
    assert (await lake.collect_garbage("shop", grace_s=0, watch=lambda at: phases.append(at.phase))).objects == 1
    assert phases == ["fencing", "listing", "condemning", "sweeping"]
