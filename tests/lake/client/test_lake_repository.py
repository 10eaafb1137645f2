"""The lake from asyncio: put, read, commit, transactions, merges."""

from collections.abc import AsyncIterator

import pytest
from tests.lake.rest.servers import KEY, SECRET, LakeProcess

from penstock.kernel.errors import AlreadyExists, MergeConflict, NoChanges, NotFound, PreconditionFailed
from penstock.lake.client.lake_api import LakeApi
from penstock.lake.client.lake_place import LakePlace
from penstock.lake.client.lake_repository import AsyncBranch, AsyncRepository
from penstock.lake.records.service import Change, ChangeKind


@pytest.fixture
async def shop(lake_process: LakeProcess, request: pytest.FixtureRequest) -> AsyncIterator[AsyncRepository]:
    async with LakeApi(LakePlace(lake_process.url, KEY, SECRET)) as api:
        repository = AsyncRepository(api, request.node.name.replace("_", "-")[-40:].strip("-"))
        await repository.create()
        yield repository


async def test_put_read_commit(shop: AsyncRepository) -> None:
    main = shop.branch("main")
    put = await main.put("a/b", b"0123456789", content_type="text/plain")
    assert (put.size, put.content_type, put.is_folder) == (10, "text/plain", False)
    assert await main.read("a/b") == b"0123456789"
    assert await main.read("a/b", 2, 5) == b"234"
    assert await main.read("a/b", -3) == b"789"
    assert await main.read("a/b", 4, 4) == b""
    assert [each async for each in main.uncommitted()] == [Change("a/b", ChangeKind.ADDED)]
    commit = await main.commit("first", metadata={"why": "because"})
    assert (commit.message, commit.metadata) == ("first", {"why": "because"})
    assert await main.head() == commit
    assert [each.message async for each in main.log()] == ["first", "Repository created"]
    await main.remove(["a/b"])
    assert not await main.exists("a/b")
    assert await shop.ref("main@").exists("a/b")
    await main.reset()
    assert [each.path async for each in main.list(delimiter="/")] == ["a/"]


async def remove_then_fail(changes: AsyncBranch) -> None:
    await changes.remove(["x"])
    await changes.read("x")


async def test_a_transaction_is_one_commit_or_nothing(shop: AsyncRepository) -> None:
    main = shop.branch("main")
    async with main.transaction("both") as changes:
        await changes.put("x", b"1")
        await changes.put("y", b"2")
        assert await changes.read("x") == b"1"  # it sees its own changes
        assert not await main.exists("x")  # and no other reader does
    assert changes.committed == await main.head()
    assert [each.message async for each in main.log()] == ["both", "Repository created"]
    with pytest.raises(NotFound):
        async with main.transaction("never") as changes:
            await remove_then_fail(changes)
    assert await main.read("x") == b"1"
    async with main.transaction("empty") as changes:
        pass
    assert changes.committed is None
    assert await shop.branches() == ["main"]


async def test_what_is_refused_comes_back_as_the_error_it_was(shop: AsyncRepository) -> None:
    main = shop.branch("main")
    with pytest.raises(NoChanges):
        await main.commit("nothing")
    with pytest.raises(NotFound):
        await main.read("absent")
    with pytest.raises(AlreadyExists):
        await shop.create()
    with pytest.raises(TypeError, match=r"text\.encode"):
        await main.put("text", "words")  # type: ignore[arg-type]
    await main.put("a", b"1", if_absent=True)
    with pytest.raises(PreconditionFailed):
        await main.put("a", b"2", if_absent=True)
    await main.commit("a")
    work = await shop.create_branch("work", "main~1")
    await work.put("a", b"3")
    await work.commit("another a")
    with pytest.raises(MergeConflict) as refused:
        await shop.merge("work", "main")
    assert refused.value.details["paths"] == ["a"]
    assert [each async for each in main.diff("work")] == [Change("a", ChangeKind.CONFLICT)]
    merged = await shop.merge("work", "main", "mine", strategy="source-wins")
    assert merged.message == "mine"
    assert await main.read("a") == b"3"
    assert (await main.revert("main", parent=1)).message.startswith("Revert")
    tag = await shop.tag("v1", "main")
    assert (await tag.head()).id == (await shop.tags())["v1"]
