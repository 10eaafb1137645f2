"""The lake as a service: what it promises, on a real quorum node and a real folder."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.lake.member.lakes import member_of, running_lake
from tests.quorum.node.cluster import running_cluster

from penstock.kernel.errors import (
    AlreadyExists,
    DirtyBranch,
    Forbidden,
    InvalidArgument,
    MergeConflict,
    NoChanges,
    NotFound,
    PreconditionFailed,
)
from penstock.lake.core.staging.records import Precondition
from penstock.lake.member.services.lake_service import LakeService
from penstock.lake.records.service import ChangeKind, Progress


async def read(lake: LakeService, ref: str, path: str, start: int = 0, end: int | None = None) -> bytes:
    async with lake.open("shop", ref, path, start, end) as reading:
        return b"".join([bytes(chunk) async for chunk in reading.chunks])


async def paths(lake: LakeService, ref: str, **settings: object) -> list[str]:
    return [each.path for each in (await lake.list("shop", ref, **settings)).results]  # type: ignore[arg-type]


async def in_chunks(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_what_is_put_is_read_listed_committed_and_merged(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        made = await lake.create_repository("shop")
        assert (made.storage, made.default_branch) == ("local://shop", "main")
        put = await lake.put("shop", "main", "a/b.txt", b"hello", metadata={"k": "v"}, content_type="text/plain")
        assert put.entry is not None
        assert (put.entry.etag, put.entry.size, put.metadata) == ("5d41402abc4b2a76b9719d911017c592", 5, {"k": "v"})
        assert await lake.head("shop", "main", "a/b.txt") == put
        assert (await read(lake, "main", "a/b.txt"), await read(lake, "main", "a/b.txt", 1, 3)) == (b"hello", b"el")
        assert await read(lake, "main", "a/b.txt", -2) == b"lo"
        with pytest.raises(NotFound):  # nothing is committed yet
            await lake.head("shop", "main@", "a/b.txt")
        phases: list[Progress] = []
        first = await lake.commit("shop", "main", "first", metadata={"by": "me"}, watch=phases.append)
        assert "performing" in {each.phase for each in phases}
        assert await lake.get_commit("shop", "main") == first
        assert await read(lake, first.id[:12], "a/b.txt") == b"hello"

        await lake.create_branch("shop", "work", "main")
        await lake.put("shop", "work", "c.txt", in_chunks(b"one ", b"two"))
        await lake.delete("shop", "work", ["a/b.txt", "never-there"])
        assert await paths(lake, "work") == ["c.txt"]
        staged = await lake.uncommitted("shop", "work")
        assert [(each.path, each.kind) for each in staged.results] == [
            ("a/b.txt", ChangeKind.REMOVED),
            ("c.txt", ChangeKind.ADDED),
        ]
        await lake.commit("shop", "work", "second")
        difference = await lake.diff("shop", "main", "work")
        assert [each.path for each in difference.results] == ["a/b.txt", "c.txt"]
        merged = await lake.merge("shop", "work", "main")
        assert (merged.message, len(merged.parents)) == ("Merge 'work' into 'main'", 2)
        assert [each.message for each in (await lake.log("shop", "main")).results] == [
            "Merge 'work' into 'main'", "second", "first", "Repository created",
        ]  # fmt: skip
        assert await lake.merge_base("shop", "main~1", "work") == first.id
        await lake.revert("shop", "main", "main", parent=1)
        assert await paths(lake, "main") == ["a/b.txt"]
        with pytest.raises(NoChanges):
            await lake.merge("shop", "work", "main")


async def test_refusals_say_what_is_wrong(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        with pytest.raises(AlreadyExists):
            await lake.create_repository("shop", storage="local://elsewhere")
        with pytest.raises(InvalidArgument, match="in use"):
            await lake.create_repository("other", storage="local://shop/below")
        with pytest.raises(InvalidArgument, match="must begin with local://"):
            await lake.create_repository("other", storage="file:///etc")
        with pytest.raises(NoChanges):
            await lake.commit("shop", "main", "nothing")
        assert (await lake.commit("shop", "main", "nothing", allow_empty=True)).message == "nothing"
        with pytest.raises(Forbidden):
            await lake.delete_branch("shop", "main")
        for missing in (lake.branch("shop", "x"), lake.tag("shop", "x"), lake.put("shop", "x", "p", b"")):
            with pytest.raises(NotFound):
                await missing
        await lake.create_branch("shop", "x", "main")
        with pytest.raises(AlreadyExists):
            await lake.create_branch("shop", "x", "main")
        await lake.put("shop", "main", "dirt", b"1")
        await lake.put("shop", "x", "new", b"2")
        await lake.commit("shop", "x", "new")
        with pytest.raises(DirtyBranch):
            await lake.merge("shop", "x", "main")
        await lake.reset("shop", "main", path="dirt")
        await lake.merge("shop", "x", "main")
        tag = await lake.create_tag("shop", "v1", "main")
        assert tag.commit == (await lake.branch("shop", "main")).commit
        with pytest.raises(AlreadyExists, match="tag already exists"):
            await lake.create_tag("shop", "v1", "main")


async def test_conflicts_name_their_paths_and_a_strategy_resolves_them(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        await lake.create_branch("shop", "x", "main")
        for branch in ("main", "x"):
            await lake.put("shop", branch, "same", branch.encode())
            await lake.commit("shop", branch, branch)
        with pytest.raises(MergeConflict) as conflict:
            await lake.merge("shop", "x", "main")
        assert conflict.value.details["paths"] == ["same"]
        assert [each.kind for each in (await lake.diff("shop", "main", "x")).results] == [ChangeKind.CONFLICT]
        await lake.merge("shop", "x", "main", strategy="source-wins")
        assert await read(lake, "main", "same") == b"x"


async def test_a_diff_hides_changes_that_both_sides_made(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        await lake.create_branch("shop", "x", "main")
        for branch in ("main", "x"):
            await lake.put("shop", branch, "alike", b"1")
            await lake.put("shop", branch, f"only/{branch}", b"2")
            await lake.commit("shop", branch, branch)
        assert [each.path for each in (await lake.diff("shop", "main", "x")).results] == ["only/x"]
        two_dot = await lake.diff("shop", "main", "x", three_dot=False)
        assert [each.path for each in two_dot.results] == ["only/main", "only/x"]


async def test_eight_branches_are_merged_at_once_and_each_merge_is_a_commit(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        for number in range(8):
            await lake.create_branch("shop", f"x{number}", "main")
            await lake.put("shop", f"x{number}", f"path/{number}", b"x")
            await lake.commit("shop", f"x{number}", "work")
        await asyncio.gather(*[lake.merge("shop", f"x{number}", "main") for number in range(8)])
        assert await paths(lake, "main") == [f"path/{number}" for number in range(8)]
        log = (await lake.log("shop", "main", first_parent=True)).results
        assert len([each for each in log if len(each.parents) == 2]) == 8


async def test_preconditions_hold_against_what_is_staged_and_what_is_committed(tmp_path: Path) -> None:
    absent = Precondition(absent=True)
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        tries = [lake.put("shop", "main", "one", b"%d" % number, when=absent) for number in range(5)]
        done = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(isinstance(each, PreconditionFailed) for each in done) == 4
        await lake.commit("shop", "main", "one")
        with pytest.raises(PreconditionFailed):
            await lake.put("shop", "main", "one", b"again", when=absent)
        found = (await lake.head("shop", "main", "one")).entry
        assert found is not None
        await lake.put("shop", "main", "one", b"newer", when=Precondition(etag=found.etag))
        with pytest.raises(PreconditionFailed):
            await lake.put("shop", "main", "one", b"newest", when=Precondition(etag=found.etag))


async def test_an_upload_in_two_phases_is_linked_where_it_was_asked_for(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        place = await lake.upload_address("shop", "main", "big")
        await lake.store.put(place.key, b"bytes")
        with pytest.raises(InvalidArgument, match="not given out"):
            await lake.link("shop", "main", "other", place.address, size=5, etag="e")
        with pytest.raises(InvalidArgument, match="not in this lake's store"):
            await lake.link("shop", "main", "big", "file:///etc/passwd", size=5, etag="e")
        await lake.link("shop", "main", "big", place.address, size=5, etag="e")
        assert await read(lake, "main", "big") == b"bytes"
        await lake.copy("shop", "main", "copy", source_ref="main", source_path="big")
        await lake.commit("shop", "main", "both")
        await lake.copy("shop", "main", "copy of copy", source_ref="main", source_path="copy")
        assert await read(lake, "main", "copy of copy") == b"bytes"


async def test_lists_are_paged_and_grouped_over_staged_and_committed(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        for path in ("a/1", "a/2", "b", "c/1"):
            await lake.put("shop", "main", path, b"")
        await lake.commit("shop", "main", "committed")
        await lake.put("shop", "main", "a/3", b"")
        await lake.delete("shop", "main", ["b"])
        assert await paths(lake, "main") == ["a/1", "a/2", "a/3", "c/1"]
        assert await paths(lake, "main@", delimiter="/") == ["a/", "b", "c/"]
        assert await paths(lake, "main", delimiter="/") == ["a/", "c/"]
        assert await paths(lake, "main", prefix="a/", after="a/1") == ["a/2", "a/3"]
        found: list[str] = []
        after = ""
        while True:
            page = await lake.list("shop", "main", after=after, limit=1)
            found += [each.path for each in page.results]
            after = page.next
            if not after:
                break
        assert found == ["a/1", "a/2", "a/3", "c/1"]


async def test_members_agree_and_a_new_one_begins_with_the_newest_checkpoint(tmp_path: Path) -> None:
    async with running_cluster(tmp_path / "quorum", 1) as cluster:
        async with (
            member_of(cluster, tmp_path, "m1", checkpoint_span=8) as one,
            member_of(cluster, tmp_path, "m2", checkpoint_span=8) as two,
        ):
            await one.create_repository("shop")
            for number in range(30):
                lake, other = (one, two) if number % 2 else (two, one)
                await lake.put("shop", "main", f"p{number}", b"x")
                assert (await other.head("shop", "main", f"p{number}")).path == f"p{number}"  # linearizable
            commits = [lake.commit("shop", "main", "both", allow_empty=True) for lake in (one, two)]
            await asyncio.gather(*commits)  # the loser has nothing left to commit, and is laid over the winner
            await asyncio.gather(one.engine.host.sync(), two.engine.host.sync())
        async with member_of(cluster, tmp_path, "m3") as three:
            assert len(await paths(three, "main@")) == 30
            assert len((await three.log("shop", "main")).results) == 3
            assert three.engine.machine.applied > 0


async def test_of_many_creations_at_once_on_one_namespace_one_succeeds(tmp_path: Path) -> None:
    async with (
        running_cluster(tmp_path / "quorum", 1) as cluster,
        member_of(cluster, tmp_path, "m1") as one,
        member_of(cluster, tmp_path, "m2") as two,
    ):
        places = ["local://place", "local://place/", "local://place/below", "local://place"]
        made = await asyncio.gather(
            *(
                lake.create_repository(f"r-{n}-{lake_no}", storage=place)
                for lake_no, lake in enumerate((one, two))
                for n, place in enumerate(places)
            ),
            return_exceptions=True,
        )
        refused = [each for each in made if isinstance(each, InvalidArgument)]
        assert len(refused) == len(made) - 1, made
        found = (await one.repositories()).results
        assert len(found) == 1
        assert all(found[0].name in str(each) for each in refused), "the refusal names who has it"
        with pytest.raises(InvalidArgument, match="no part of it empty"):
            await one.create_repository("other", storage="local:///place")
