"""Sinks: batches are committed once, by the right query, in order; on a real quorum node and a real folder."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.lake.member.lakes import member_of, running_lake
from tests.quorum.node.cluster import running_cluster

from penstock.kernel.errors import Gone, InvalidArgument, PreconditionFailed, StagedFileMissing, TableChanged
from penstock.lake.core.staging.records import GcFence
from penstock.lake.member.services.lake_service import LakeService
from penstock.lake.member.services.sinks_service import checked_tables
from penstock.lake.records.sink_batch import (
    BatchBody,
    BatchFile,
    BatchTable,
    SinkBody,
    encode_list,
    list_key,
    staged_address,
)


async def stage(
    lake: LakeService,
    attempt: str,
    *prefixes: str,
    replaces: bool = False,
    base: str = "",
    expects: tuple[tuple[str, str], ...] = (),
) -> str:
    """A file for each prefix, put where a task would put it, and their list."""
    place = await lake.sink_place("shop", "main")
    tables: list[BatchTable] = []
    for prefix in prefixes:
        address = staged_address(place.data, f"{attempt}{len(tables)}", 0)
        await lake.store.put(place.folder + address, attempt.encode())
        file = BatchFile(f"{prefix}{attempt}.parquet", address, len(attempt), f"etag-{attempt}", 1)
        tables.append(BatchTable(prefix, (file,), replaces, expects, base))
    id_, data = encode_list(tuple(tables))
    await lake.store.put(list_key(id_), data)
    return id_


async def shown(lake: LakeService, ref: str = "main") -> list[str]:
    return [each.path for each in (await lake.list("shop", ref)).results]


async def test_a_batch_is_committed_once(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        first = BatchBody(await stage(lake, "a", "t/"), "q", "s", 0, "plan0", metadata={"offsets": "{}"})
        done = await lake.commit_batch("shop", "main", first)
        assert done.outcome == "applied"
        commit = await lake.get_commit("shop", "main")
        assert (commit.id, commit.metadata) == (done.commit, {"offsets": "{}"})
        # A replay has other files: they stay unseen.
        again = BatchBody(await stage(lake, "b", "t/"), "q", "s", 0, "plan0")
        assert (await lake.commit_batch("shop", "main", again)).commit == done.commit
        assert await shown(lake) == ["t/a.parquet"]
        second = BatchBody(await stage(lake, "c", "t/", "u/"), "q", "s", 1, "plan1")
        assert (await lake.commit_batch("shop", "main", second)).outcome == "applied"
        assert await shown(lake) == ["t/a.parquet", "t/c.parquet", "u/c.parquet"]
        (register,) = await lake.sinks("shop", "main")
        assert (register.sink, register.query, register.batch, register.guard) == ("s", "q", 1, "plan1")


async def test_stale_drivers_and_other_queries_are_refused(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        list_ = await stage(lake, "a", "t/")
        await lake.commit_batch("shop", "main", BatchBody(list_, "q", "s", 4, "plan4"))
        head = (await lake.get_commit("shop", "main")).id
        for query, batch, guard, why in (
            ("q", 3, "plan3", "stale driver"),
            ("q", 6, "plan6", "stale driver"),
            ("q", 4, "another", "rewound"),
            ("other", 0, "", "checkpoint was reset"),
            ("other", 5, "plan5", "checkpoint was reset"),
        ):
            with pytest.raises(PreconditionFailed, match=why) as refused:
                await lake.commit_batch("shop", "main", BatchBody(list_, query, "s", batch, guard))
            assert "penstock pipeline adopt s" in refused.value.next_step
        assert (await lake.get_commit("shop", "main")).id == head
        # Adopted, the other query goes on, and the first one is the stranger.
        await lake.adopt_sink("shop", "main", SinkBody("s", "other", -1))
        other = BatchBody(await stage(lake, "b", "t/"), "other", "s", 0)
        assert (await lake.commit_batch("shop", "main", other)).outcome == "applied"
        with pytest.raises(PreconditionFailed):
            await lake.commit_batch("shop", "main", BatchBody(list_, "q", "s", 5))
        await lake.forget_sink("shop", "main", "s")
        assert await lake.sinks("shop", "main") == []


async def test_of_two_drivers_one_commits(tmp_path: Path) -> None:
    """A zombie and its successor, through two members, with files of their own: the rows of one of them are seen."""
    async with (
        running_cluster(tmp_path / "quorum", 1) as cluster,
        member_of(cluster, tmp_path, "m1") as one,
        member_of(cluster, tmp_path, "m2") as other,
    ):
        await one.create_repository("shop")
        for batch in range(3):
            outcomes = await asyncio.gather(
                one.commit_batch("shop", "main", BatchBody(await stage(one, f"a{batch}", "t/"), "q", "s", batch)),
                other.commit_batch("shop", "main", BatchBody(await stage(other, f"b{batch}", "t/"), "q", "s", batch)),
            )
            assert {each.commit for each in outcomes} == {(await one.get_commit("shop", "main")).id}
        assert len(await shown(one)) == 3


async def test_a_replaced_prefix_holds_the_batch_and_nothing_else(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        await lake.commit_batch("shop", "main", BatchBody(await stage(lake, "a", "t/", "u/"), "q", "s", 0))
        replacing = await stage(lake, "b", "t/", replaces=True)
        done = await lake.commit_batch("shop", "main", BatchBody(replacing, "q", "s", 1))
        assert await shown(lake) == ["t/b.parquet", "u/a.parquet"]
        assert [each.path for each in (await lake.diff("shop", done.commit + "~1", done.commit)).results] == [
            "t/a.parquet",
            "t/b.parquet",
        ]


async def test_a_rewrite_is_of_the_commit_that_was_read(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        read = (await lake.commit_batch("shop", "main", BatchBody(await stage(lake, "a", "t/"), "job1"))).commit
        with pytest.raises(TableChanged, match="t/ has rows, and the rewrite does not say which commit it read"):
            await lake.commit_batch("shop", "main", BatchBody(await stage(lake, "b", "t/", replaces=True), "job2"))
        await lake.commit_batch("shop", "main", BatchBody(await stage(lake, "c", "u/"), "job3"))  # another table
        rewrite = BatchBody(await stage(lake, "d", "t/", replaces=True, base=read), "job4")
        done = await lake.commit_batch("shop", "main", rewrite)
        assert await shown(lake) == ["t/d.parquet", "u/c.parquet"]
        assert (await lake.commit_batch("shop", "main", rewrite)).commit == done.commit  # its answer was lost
        await lake.commit_batch("shop", "main", BatchBody(await stage(lake, "e", "t/"), "job5"))
        late = BatchBody(await stage(lake, "f", "t/", replaces=True, base=done.commit), "job6")
        with pytest.raises(TableChanged, match=f"t/ has changed between commit {done.commit} and "):
            await lake.commit_batch("shop", "main", late)
        assert await shown(lake) == ["t/d.parquet", "t/e.parquet", "u/c.parquet"]
        await lake.commit_batch(
            "shop", "main", BatchBody(await stage(lake, "g", "t/", replaces=True, base="any"), "j7")
        )
        assert await shown(lake) == ["t/g.parquet", "u/c.parquet"]


async def test_a_sink_replaces_what_it_wrote_itself(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        for batch in range(2):
            list_ = await stage(lake, f"a{batch}", "t/", replaces=True)
            await lake.commit_batch("shop", "main", BatchBody(list_, "q", "s", batch))
        await lake.commit_batch("shop", "main", BatchBody(await stage(lake, "b", "t/"), "job"))
        last = BatchBody(await stage(lake, "a2", "t/", replaces=True), "q", "s", 2)
        with pytest.raises(TableChanged):
            await lake.commit_batch("shop", "main", last)
        assert (await lake.sinks("shop", "main"))[0].batch == 1
        await lake.adopt_sink("shop", "main", SinkBody("s", "q", 1))  # which breaks the chain, on purpose
        await lake.commit_batch("shop", "main", last)
        assert await shown(lake) == ["t/a2.parquet"]


async def test_a_batch_says_what_must_not_have_changed(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        new = await stage(lake, "a", "t/", expects=(("t/a.parquet", ""),))
        await lake.commit_batch("shop", "main", BatchBody(new, "q", "s", 0))
        with pytest.raises(TableChanged, match=r"t/a.parquet has changed: it is etag-a, and .* no such file"):
            await lake.commit_batch("shop", "main", BatchBody(new, "q2", "s2", 0))
        same = await stage(lake, "b", "t/", expects=(("t/a.parquet", "etag-a"),))
        await lake.commit_batch("shop", "main", BatchBody(same, "q", "s", 1))
        assert await shown(lake) == ["t/a.parquet", "t/b.parquet"]


async def test_a_job_without_a_sink_commits_once_too(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        body = BatchBody(await stage(lake, "a", "t/"), "job1")
        first = await lake.commit_batch("shop", "main", body)
        again = await lake.commit_batch("shop", "main", body)
        assert (first.outcome, again.outcome) == ("applied", "replayed")
        assert first.commit == again.commit == (await lake.get_commit("shop", "main")).id
        assert await lake.sinks("shop", "main") == []


async def test_an_empty_batch_moves_the_register_alone(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        head = (await lake.get_commit("shop", "main")).id
        id_, data = encode_list(())
        await lake.store.put(list_key(id_), data)
        done = await lake.commit_batch("shop", "main", BatchBody(id_, "q", "s", 0))
        assert (done.outcome, done.commit) == ("applied", head)
        assert (await lake.sinks("shop", "main"))[0].batch == 0


async def test_files_from_before_two_garbage_collections_are_refused(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        list_ = await stage(lake, "a", "t/")
        repository = await lake.engine.repository("shop")
        for _ in range(2):
            await lake.engine.write(GcFence(lake.engine.request(), repository.instance))
        with pytest.raises(Gone):
            await lake.commit_batch("shop", "main", BatchBody(list_, "q", "s", 0))
        assert await shown(lake) == []


def test_tables_of_one_commit_do_not_overlap() -> None:
    with pytest.raises(InvalidArgument, match="lies in table"):
        checked_tables((BatchTable("t/"), BatchTable("t/u/")))
    with pytest.raises(InvalidArgument, match="ends in /"):
        checked_tables((BatchTable("t"),))
    with pytest.raises(InvalidArgument, match="no file of table"):
        checked_tables((BatchTable("t/", (BatchFile("u/a", "data/00000001/a", 1, ""),)),))
    with pytest.raises(InvalidArgument, match="no address"):
        checked_tables((BatchTable("t/", (BatchFile("t/a", "../../etc/passwd", 1, ""),)),))


async def test_a_batch_whose_files_are_elsewhere_is_refused_and_named(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        place = await lake.sink_place("shop", "main")
        files = [
            BatchFile(f"t/{n}.parquet", staged_address(place.data, f"a{n}", 0), 3, "", 1, "worker-7") for n in range(3)
        ]
        for each in files[:2]:
            await lake.store.put(place.folder + each.address, b"abc")
        id_, data = encode_list((BatchTable("t/", tuple(files)),))
        await lake.stage_list("shop", "main", id_, data)
        for body in (BatchBody(id_, "q", "s", 0), BatchBody(id_, "job")):
            with pytest.raises(StagedFileMissing, match=r"t/2.parquet, written by a task on worker-7 .* is not in"):
                await lake.commit_batch("shop", "main", body)
        assert await shown(lake) == []
        assert await lake.sinks("shop", "main") == []
        await lake.store.put(place.folder + files[2].address, b"ab")
        with pytest.raises(StagedFileMissing, match="has 2 B in the lake's store, and the task wrote 3 B"):
            await lake.commit_batch("shop", "main", BatchBody(id_, "q", "s", 0))
        await lake.store.put(place.folder + files[2].address, b"abc")
        assert (await lake.commit_batch("shop", "main", BatchBody(id_, "q", "s", 0))).outcome == "applied"
        # A replay names other files, which need not be anywhere.
        other, data = encode_list((BatchTable("t/", (BatchFile("t/x", staged_address(place.data, "x", 0), 1, ""),)),))
        await lake.stage_list("shop", "main", other, data)
        assert (await lake.commit_batch("shop", "main", BatchBody(other, "q", "s", 0))).outcome == "replayed"


async def test_files_are_staged_through_the_lake(tmp_path: Path) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"ab"
        yield b"c"

    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        place = await lake.sink_place("shop", "main")
        assert place.mark == (await lake.sink_place("shop", "main")).mark != ""
        address = staged_address(place.data, "a", 0)
        assert await lake.stage_file("shop", "main", address, chunks()) == 3
        assert await lake.stage_file("shop", "main", address, chunks()) == 3  # asked again
        assert bytes((await lake.store.get(place.folder + address)).data) == b"abc"
        for wrong in ("data/00000009/a-00000.parquet", "_penstock/00000000/x", "data/../x"):
            with pytest.raises(InvalidArgument):
                await lake.stage_file("shop", "main", wrong, chunks())
