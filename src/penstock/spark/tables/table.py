"""Tables of the lake as DataFrames, read by Spark's own Parquet reader. Design: spark.md; architecture.md.

    read_table(spark, "lake://shop@main/orders")
    read_table(spark, "lake://shop@main/orders", as_of="2026-11-15T12:00:00Z")
    read_changes(spark, "lake://shop@main/orders", since="main~1")
    read_ranges(spark, "lake://shop@main")

A ref is resolved to a commit when the DataFrame is made: it never changes under a query. The lake is asked for the
files' places alone; no byte of them passes through it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Final
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, LongType, StringType, StructType

from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.lake.client.lake import LakeUrl, parse_lake_url
from penstock.lake.records.sink_batch import TreePlace
from penstock.spark.tables.footers import footer_schema
from penstock.spark.tables.lake_access import LakeAccess, access_from, table_url
from penstock.spark.tables.lake_staging import NO_VALUE
from penstock.spark.tables.lake_tree import Moment, TableFile, changed_files, files_of, place_at, spark_root
from penstock.spark.tables.table_columns import columns_at

__all__ = [
    "CHANGE",
    "ENTRIES",
    "entries_of",
    "is_root",
    "parts_of",
    "read_changes",
    "read_entries",
    "read_files",
    "read_ranges",
    "read_table",
    "root_rows",
]

CHANGE: Final = "_change"
PARTITIONS_MAX: Final = 1000  # which are added by us: each is a part of a union
LISTED_BY_DRIVER: Final = "spark.sql.sources.parallelPartitionDiscovery.threshold"


def read_table(
    spark: SparkSession,
    url: str,
    *,
    as_of: Moment = None,
    schema: StructType | None = None,
    merge_schema: bool = False,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A table at a branch, a tag, a commit or any expression on one; with `as_of`, as its branch was at that time."""
    target = table_url(url)
    access = access_from(options or {})
    found = files_of(access, target, as_of)
    if not found.files:
        if schema is None:
            raise NotFound(f"{url} has no files", next_step=f"penstock lake ls {url}")
        return spark.createDataFrame([], schema)
    if schema is None and found.schema_etag and not merge_schema:
        schema = columns_at(access, LakeUrl(target.repository, found.place.commit, target.path), found.schema_etag)
    wanted = schema or _schema(spark, found.files, found.newest, merge_schema=merge_schema)
    return _read(spark, found.files, target.path, wanted)


def read_changes(
    spark: SparkSession,
    url: str,
    *,
    since: str,
    schema: StructType | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows which came and went between `since` and the URL's ref, with `_change` = insert or delete."""
    target = table_url(url)
    changed = changed_files(access_from(options or {}), target, since, target.ref)
    if not changed:
        if schema is None:
            schema = read_table(spark, url, options=options).schema
        return spark.createDataFrame([], schema).withColumn(CHANGE, F.lit("insert"))
    wanted = schema or _schema(spark, [each.file for each in changed], changed[-1].file, merge_schema=False)
    parts = []
    for kind in ("delete", "insert"):
        files = [each.file for each in changed if each.kind == kind]
        if files:
            parts.append(_read(spark, files, target.path, wanted).withColumn(CHANGE, F.lit(kind)))
    return reduce(DataFrame.unionByName, parts)


def read_ranges(
    spark: SparkSession, url: str, *, as_of: Moment = None, options: Mapping[str, str] | None = None
) -> DataFrame:
    """The parts of a commit: id, first and last path, how many entries, and the file that holds them (`url`).

    A part is a leaf: `count` rows of its file from row `first` on. In a tree of format 2 it is a range: a whole file.
    """
    place = _place(access_from(options or {}), url, as_of)
    return parts_of(spark, spark_root(place.store) + place.folder, [place.metarange] if place.metarange else [])


def parts_of(spark: SparkSession, root: str, trees: Sequence[str]) -> DataFrame:
    """Return the parts of some trees of one format, which lie below the root."""
    if not trees:
        return spark.createDataFrame([], LEAVES).withColumn("url", F.lit(""))
    if is_root(trees[0]):
        nodes = (
            root_rows(spark, root, trees).where("kind = 'node'").select("pack", "first", F.col("leaves").alias("count"))
        )
        leaves = _rows_of(spark, root, nodes.distinct(), LEAVES)
        return leaves.withColumn("url", F.concat(F.lit(root), "pack"))
    ranges = read_files(spark, [root + key for key in trees], RANGES)
    return ranges.withColumn("url", F.concat(F.lit(root), "location", F.lit("/range-"), "id", F.lit(".parquet")))


def is_root(key: str) -> bool:
    """Return whether a tree's first file is that of format 3."""
    return key.rpartition("/")[2].startswith("root-")


def root_rows(spark: SparkSession, root: str, trees: Sequence[str]) -> DataFrame:
    """Return the rows of some roots: nodes, and the packs of each tree."""
    return read_files(spark, [root + key for key in trees], ROOT)


def entries_of(spark: SparkSession, parts: DataFrame) -> DataFrame:
    """Return the entries of some parts, as `read_ranges` names them."""
    if "pack" not in parts.columns:
        return read_files(spark, [row["url"] for row in parts.select("url").distinct().collect()], ENTRIES)
    first = parts.select("url", "pack").first()
    if first is None:
        return spark.createDataFrame([], ENTRIES)
    return _rows_of(spark, first["url"].removesuffix(first["pack"]), parts.select("pack", "first", "count"), ENTRIES)


def _rows_of(spark: SparkSession, root: str, places: DataFrame, schema: str) -> DataFrame:
    """Return `count` rows from row `first` on of each pack. Rows that no place names are of other trees.

    Files are joined by blocks of rows, so that each row meets the few places of its block alone.
    """
    files = [root + row["pack"] for row in places.select("pack").distinct().collect()]
    with _listed_by_driver(spark):
        read = spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
    if not files:
        return read
    at = F.col("_metadata.row_index")
    rows = read.select(
        F.struct("*").alias("row"),
        F.regexp_extract("_metadata.file_path", _PACK, 1).alias("file"),
        at.alias("at"),
        F.expr(f"_metadata.row_index div {BLOCK_ROWS}").alias("block"),
    )
    blocks = F.expr(f"explode(sequence(first div {BLOCK_ROWS}, (first + count - 1) div {BLOCK_ROWS}))")
    wanted = places.select(F.col("pack").alias("file"), "first", "count", blocks.alias("block"))
    found = rows.join(wanted, ["file", "block"]).where("at >= first AND at < first + count")
    return found.select("row.*")


def read_entries(
    spark: SparkSession, url: str, *, as_of: Moment = None, options: Mapping[str, str] | None = None
) -> DataFrame:
    """Every entry of a commit: path, address, size, ETag, mtime, content type, metadata. For jobs over millions."""
    return entries_of(spark, read_ranges(spark, url, as_of=as_of, options=options))


def read_files(spark: SparkSession, urls: Sequence[str], schema: str) -> DataFrame:
    """Parquet files by their places; none of them is an empty DataFrame."""
    if not urls:
        return spark.createDataFrame([], schema)
    with _listed_by_driver(spark):
        return spark.read.schema(schema).parquet(*urls)


BLOCK_ROWS: Final = 1024
_PACK: Final = r"(_penstock/[0-9]{8}/[^/]+/[^/]+)$"
ROOT: Final = (
    "kind string, number long, id string, min_key string, max_key string, count long, size long, pack string, "
    "`group` long, first long, leaves long"
)
LEAVES: Final = (
    "id string, min_key string, max_key string, count long, size long, pack string, `group` long, first long"
)
RANGES: Final = "id string, min_key string, max_key string, count long, size long, location string"
ENTRIES: Final = (
    "path string, address string, size long, etag string, mtime_ns long, content_type string, metadata string"
)


def _place(access: LakeAccess, url: str, as_of: Moment) -> TreePlace:
    return place_at(access, parse_lake_url(url), as_of)


def _schema(spark: SparkSession, files: Sequence[TableFile], newest: TableFile, *, merge_schema: bool) -> StructType:
    """Return the schema of the newest file; or of all of them together, which opens them all."""
    if not merge_schema:
        return footer_schema(newest.url) or spark.read.parquet(newest.url).schema
    return spark.read.option("mergeSchema", "true").parquet(*(each.url for each in files)).schema


def _read(spark: SparkSession, files: Sequence[TableFile], prefix: str, schema: StructType) -> DataFrame:
    """Files as one DataFrame. Columns which only their paths have are added, as Hive's folders mean it."""
    named = [_partition_of(each.path[len(prefix) :]) for each in files]
    columns = [name for name in (named[0] if named else {}) if name not in schema.names]
    with _listed_by_driver(spark):
        if not columns:
            return spark.read.schema(schema).parquet(*(each.url for each in files))
        return _read_by_partition(spark, files, named, columns, schema)


def _read_by_partition(
    spark: SparkSession,
    files: Sequence[TableFile],
    named: Sequence[Mapping[str, str | None]],
    columns: Sequence[str],
    schema: StructType,
) -> DataFrame:
    groups: dict[tuple[str | None, ...], list[str]] = {}
    for file, values in zip(files, named, strict=True):
        groups.setdefault(tuple(values.get(name) for name in columns), []).append(file.url)
    if len(groups) > PARTITIONS_MAX:
        raise InvalidArgument(
            f"the files do not have the columns {', '.join(columns)}, only their {len(groups)} folders do: "
            f"that is done for {PARTITIONS_MAX} folders at most"
        )
    kinds = [_kind([key[at] for key in groups]) for at in range(len(columns))]
    parts = []
    for key, urls in groups.items():
        part = spark.read.schema(schema).parquet(*urls)
        for name, value, kind in zip(columns, key, kinds, strict=True):
            part = part.withColumn(name, F.lit(value).cast(kind))
        parts.append(part)
    return reduce(DataFrame.unionByName, parts)


def _partition_of(path: str) -> dict[str, str | None]:
    """
    >>> _partition_of("day=2026-11-15/shop=a%2Fb/part-0.parquet")
    {'day': '2026-11-15', 'shop': 'a/b'}
    """
    pairs = [folder.partition("=") for folder in path.split("/")[:-1] if "=" in folder]
    return {unquote(name): None if value == NO_VALUE else unquote(value) for name, _, value in pairs}


def _kind(values: Sequence[str | None]) -> DataType:
    """Return the type of folder values: whole numbers or days if all of them are, else text."""
    known = [value for value in values if value is not None]
    if known and all(value.lstrip("-").isdigit() and len(value) < 19 for value in known):
        return LongType()
    if known and all(len(value) == 10 and value[4] == value[7] == "-" for value in known):
        return DateType()
    return StringType()


@contextmanager
def _listed_by_driver(spark: SparkSession) -> Iterator[None]:
    """The lake has said which files there are: Spark need not start a job to look (20 s for 10,000 files)."""
    before = spark.conf.get(LISTED_BY_DRIVER)
    spark.conf.set(LISTED_BY_DRIVER, str(1 << 30))
    try:
        yield
    finally:
        spark.conf.set(LISTED_BY_DRIVER, str(before))
