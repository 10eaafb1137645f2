"""Trees which were built elsewhere become commits, with the ids which an import of the same objects has."""

from pathlib import Path

import polars as pl
import pytest
from tests.lake.member.lakes import running_lake

from penstock.kernel.errors import Gone, InvalidArgument
from penstock.lake.core.committed.changes import puts
from penstock.lake.core.committed.entry import ENTRY_SCHEMA
from penstock.lake.core.committed.metarange import EMPTY_TREE, Location, TreeAddress, location_of
from penstock.lake.core.staging.records import GcFence
from penstock.lake.member.services.lake_service import LakeService
from penstock.lake.records.sink_batch import TreeBody


def entries(prefix: str, count: int) -> pl.DataFrame:
    rows = [(f"{prefix}{n:05d}", f"s3://elsewhere/{n}", n, f"etag-{n}", 1, "", "") for n in range(count)]
    return pl.DataFrame(rows, schema=ENTRY_SCHEMA, orient="row")


async def build(lake: LakeService, made: pl.DataFrame, location: Location, on: TreeAddress = EMPTY_TREE) -> TreeAddress:
    found, _ = await lake.engine.branch("shop", "main")
    return await lake.engine.shelves.of(found).trees.build(on, puts(made), location)


async def test_a_tree_is_committed_once_with_the_ids_of_an_import(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        await lake.put("shop", "main", "a", b"1")
        await lake.put("shop", "main", "z", b"2")
        await lake.put("shop", "main", "raw/old", b"3")
        await lake.commit("shop", "main", "before")
        epoch = (await lake.sink_place("shop", "main")).link_epoch
        location = location_of(epoch, "spark")
        source = await build(lake, entries("raw/", 20_000), location)
        body = TreeBody(source.id, source.location, "job-1", "raw/", "import", {"rows": "20000"}, 3)
        done = await lake.commit_tree("shop", "main", body)
        assert done.outcome == "applied"
        assert await lake.commit_tree("shop", "main", body) == type(done)("replayed", done.commit)

        commit = await lake.get_commit("shop", "main")
        assert (commit.id, commit.message, commit.metadata) == (done.commit, "import", {"rows": "20000"})
        found, _ = await lake.engine.branch("shop", "main")
        shelf = lake.engine.shelves.of(found)
        before = (await shelf.history.get(commit.parents[0])).tree
        listing = [entries("", 20_000).to_arrow().to_batches()[0]]
        alone = await shelf.trees.import_objects(before, listing, "raw/", location_of(epoch, "alone"))
        assert commit.metarange == alone.id


async def test_trees_which_may_be_swept_or_refer_elsewhere_are_refused(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        source = await build(lake, entries("", 20_000), location_of(0, "old"))
        mixed = await build(lake, entries("zz/", 10), location_of(0, "other"), on=source)
        with pytest.raises(InvalidArgument, match="refers to files outside"):
            await lake.commit_tree("shop", "main", TreeBody(mixed.id, "_penstock/00000000/other", "job-2", format=3))
        with pytest.raises(InvalidArgument, match="64 hexadecimal digits"):
            await lake.commit_tree("shop", "main", TreeBody("x", source.location, "job-3"))
        found, _ = await lake.engine.branch("shop", "main")
        for _ in range(3):
            await lake.engine.write(GcFence(lake.engine.request(), found.instance))
        with pytest.raises(Gone):
            await lake.commit_tree("shop", "main", TreeBody(source.id, source.location, "job-4", format=3))
