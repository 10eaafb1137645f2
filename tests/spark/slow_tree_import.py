"""Imports by Spark, into a real lake: the tree is the one which a process alone makes of the same listing."""

import asyncio

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.lake.rest.servers import LakeProcess
from tests.spark.lakes import access_of, log, make_repository, options_of

from penstock.lake.core.committed.metarange import EMPTY_TREE, location_of
from penstock.lake.member.committed import Trees
from penstock.plumbing.objects import open_store
from penstock.spark import import_entries, read_entries, read_ranges

pytestmark = pytest.mark.timeout(600)
OBJECTS = 40_000  # some ten ranges
COLUMNS = (
    "concat(id % 7, '/', lpad(id, 6, '0')) AS path",
    "concat('s3://elsewhere/', id) AS address",
    "id % 5 AS size",
    "concat('etag', id) AS etag",
    "1700000000000000000 + id AS mtime_ns",
)


def alone(listing: pa.Table) -> str:
    """The id of the tree which one process makes."""

    async def made() -> str:
        async with open_store("memory://") as store, Trees(store) as trees:
            batches = listing.to_batches()
            return (await trees.import_objects(EMPTY_TREE, batches, "raw/", location_of(1, "alone"))).id

    return asyncio.run(made())


def test_an_import_by_spark_makes_the_tree_of_one_process(spark: SparkSession, lake: LakeProcess) -> None:
    access, options = access_of(lake), options_of(lake)
    main = make_repository(lake, "import-spark")
    for path in ("a", "raw/gone", "z"):
        lake.call("POST", f"/repositories/import-spark/branches/main/objects?path={path}", path.encode())
    access.ask("POST", "/repositories/import-spark/branches/main/commits", {"message": "before"})
    listing = spark.range(OBJECTS).selectExpr(*COLUMNS)
    twice = listing.unionByName(listing.limit(10))  # a listing may have an object twice
    done = import_entries(spark, f"{main}/raw/", twice, tasks=5, message="import", options=options)
    assert (done.entries, done.tree) == (OBJECTS, alone(listing.toArrow()))
    shown = log(lake, "import-spark")[0]
    assert (shown["id"], shown["message"]) == (done.commit, "import")
    assert read_ranges(spark, main, options=options).count() > 4
    paths = read_entries(spark, main, options=options).where("path NOT LIKE 'raw/%'").select("path").collect()
    assert sorted(row["path"] for row in paths) == ["a", "z"]
    assert read_entries(spark, main, options=options).count() == OBJECTS + 2
