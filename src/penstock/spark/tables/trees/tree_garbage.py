"""Garbage of a repository as an anti-join: what the store lists, without what anything refers to. Design: lake.md L15.

    find_garbage(spark, "lake://shop@main").agg({"size": "sum"}).show()

The same answer as `penstock lake gc` without `--sweep`, for repositories of many millions of objects: the store is
listed by tasks, an epoch to each, and marks are read out of ranges by Spark's own Parquet reader. Nothing is deleted:
sweeping needs the collector's fences.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.lake.client.lake import parse_lake_url
from penstock.lake.records.sink_batch import Roots
from penstock.plumbing.objects import open_store
from penstock.spark.tables.lake_access import LakeAccess, access_from
from penstock.spark.tables.lake_tree import spark_root
from penstock.spark.tables.table import entries_of, is_root, parts_of, root_rows

__all__ = ["find_garbage"]

LISTED: Final = "key string, size long, epoch long"
_LISTED: Final = pa.schema([("key", pa.string()), ("size", pa.int64()), ("epoch", pa.int64())])
FOLDERS: Final = ("data", "_penstock")
TASKS_MAX: Final = 64


def find_garbage(spark: SparkSession, url: str, *, options: Mapping[str, str] | None = None) -> DataFrame:
    """A row for each object which nothing refers to: its `key` below the repository, `size`, and link `epoch`."""
    access, repository = access_from(options or {}), parse_lake_url(url).repository
    there = _listed(spark, _roots(access, repository)).localCheckpoint()  # before the roots which count
    roots = _roots(access, repository)
    return there.where(F.col("epoch") < roots.gce).join(_marked(spark, roots), "key", "left_anti")


def _roots(access: LakeAccess, repository: str) -> Roots:
    return msgspec.convert(access.ask("GET", f"/repositories/{repository}/gc/roots"), Roots)


def _listed(spark: SparkSession, roots: Roots) -> DataFrame:
    """Everything in the namespace which could be garbage, listed by tasks."""
    store, folder = roots.store, roots.folder
    epochs = [(name, epoch) for epoch in range(roots.gce + 1) for name in FOLDERS]

    def listed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                found = asyncio.run(_list(store, folder, f"{row['name']}/{row['epoch']:08d}/"))
                rows = [{"key": key, "size": size, "epoch": row["epoch"]} for key, size in found]
                yield pa.RecordBatch.from_pylist(rows, schema=_LISTED)

    wanted = spark.createDataFrame(epochs, "name string, epoch long").repartition(min(len(epochs), TASKS_MAX))
    return wanted.mapInArrow(listed, LISTED)


async def _list(store_url: str, folder: str, prefix: str) -> list[tuple[str, int]]:
    async with open_store(store_url) as store:
        pages = [page async for page in store.list(folder + prefix)]
    return [(each.key[len(folder) :], each.size) for page in pages for each in page.objects]


def _marked(spark: SparkSession, roots: Roots) -> DataFrame:
    """Return the referenced keys: trees, their ranges, the objects of kept trees, and staged objects."""
    root = spark_root(roots.store) + roots.folder
    entries = [entries_of(spark, parts.dropDuplicates(["id"])) for parts in _parts(spark, root, roots.metaranges)]
    own = f"{roots.storage}/"
    address = F.col("address")
    below = F.when(address.startswith(own), F.expr(f"substring(address, {len(own) + 1})")).otherwise(address)
    staged = [address.removeprefix(own) for address in roots.staged]
    files = [_files(spark, root, keys) for keys in (roots.metaranges, roots.trees_only)]
    named = _keys(spark, [*roots.metaranges, *roots.trees_only, *staged])
    return reduce(DataFrame.union, [named, *files, *(each.select(below.alias("key")) for each in entries)]).distinct()


def _parts(spark: SparkSession, root: str, trees: Sequence[str]) -> list[DataFrame]:
    """Return the leaves of trees of format 3, and the ranges of those of format 2."""
    sides = [key for key in trees if is_root(key)], [key for key in trees if not is_root(key)]
    return [parts_of(spark, root, keys) for keys in sides if keys]


def _files(spark: SparkSession, root: str, trees: Sequence[str]) -> DataFrame:
    """Return the keys of all files of some trees but their first ones."""
    ranges = [key for key in trees if not is_root(key)]
    roots = [key for key in trees if is_root(key)]
    listed = root_rows(spark, root, roots).where("kind IN ('pack', 'index')").select(F.col("pack").alias("key"))
    if not ranges:
        return listed
    location = F.concat("location", F.lit("/range-"), "id", F.lit(".parquet"))
    return listed.union(parts_of(spark, root, ranges).select(location.alias("key")))


def _keys(spark: SparkSession, keys: Sequence[str]) -> DataFrame:
    return spark.createDataFrame([(key,) for key in keys], "key string")
