"""The ends of a pipeline's flows: journals and tables of the lake, as sources and as sinks.

    journal("shop/orders", schema="sku string, quantity int, price decimal(9,2)")
    lake("lake://shop@main/orders", partition_by=("day",), checks={"amounts": "amount > 0"})
    lake.table("lake://shop@main/products")         the whole table, as of each run
    lake.changes("lake://shop@main/orders")         a stream of the rows which commits add

An end is only a description: its connections (brokers, the lake) come from options or the environment.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession

from penstock.kernel.errors import InvalidArgument
from penstock.spark.journals.columnar import read_journal
from penstock.spark.tables.lake_access import access_from, table_url
from penstock.spark.tables.lake_tree import place_at
from penstock.spark.tables.table import read_table

__all__ = [
    "Check",
    "End",
    "JournalEnd",
    "LakeChanges",
    "LakeSink",
    "LakeTable",
    "PostgresSink",
    "Source",
    "journal",
    "lake",
    "postgres",
]

Check = str | Callable[[DataFrame], bool]  # an SQL condition which every row must keep; or a function which says yes


class JournalEnd(msgspec.Struct, frozen=True):
    """A journal, read or written."""

    name: str
    schema: str = ""
    options: Mapping[str, str] = {}

    def __str__(self) -> str:
        return f"journal {self.name}"

    def stream(self, spark: SparkSession, starting: str = "", until: str = "") -> DataFrame:
        reader = spark.readStream.format("journal").options(**self.options)
        if self.schema:
            reader = reader.schema(self.schema)
        if starting:
            reader = reader.option("startingOffsets", starting)
        if until:
            reader = reader.option("untilOffsets", until)
        return reader.load(self.name)

    def read(self, spark: SparkSession, *, is_ordered: bool = False, **offsets: str) -> DataFrame:
        """Read a part of it as a batch; without offsets, all of it. As columns, unless rows are to be in order."""
        streams_only = {"maxBytesPerTrigger", "untilOffsets", "tasks"}
        given = {name: text for name, text in self.options.items() if name not in streams_only} | offsets
        if not is_ordered:
            return read_journal(spark, self.name, schema=self.schema or None, **given)
        reader = spark.read.format("journal").options(**given)
        if self.schema:
            reader = reader.schema(self.schema)
        return reader.load(self.name)


class LakeTable(msgspec.Struct, frozen=True):
    """A whole table next to a stream: to look things up in."""

    url: str
    options: Mapping[str, str] = {}

    def __str__(self) -> str:
        return f"table {self.url}"

    def read(self, spark: SparkSession) -> DataFrame:
        return read_table(spark, self.url, options=self.options)

    def pinned(self) -> "LakeTable":
        """The same at the commit which its ref names now."""
        target = table_url(self.url)
        commit = place_at(access_from(self.options), target).commit
        return LakeTable(f"lake://{target.repository}@{commit}/{target.path}", self.options)


class LakeChanges(msgspec.Struct, frozen=True):
    """The rows which commits add to a table, as a stream."""

    url: str
    options: Mapping[str, str] = {}

    def __str__(self) -> str:
        return f"changes of {self.url}"

    def stream(self, spark: SparkSession) -> DataFrame:
        return spark.readStream.format("lake").options(**self.options).load(self.url)


class LakeSink(msgspec.Struct, frozen=True):
    """A table which a flow fills: by appending, or by replacing all of it with each batch (`complete`)."""

    url: str
    mode: Literal["append", "complete"] = "append"
    partition_by: tuple[str, ...] = ()
    checks: Mapping[str, Check] = {}
    options: Mapping[str, str] = {}

    def __str__(self) -> str:
        return f"table {self.url}"


class PostgresSink(msgspec.Struct, frozen=True):
    """A table of a PostgreSQL database: rows are added, or replace those of the same key (`upsert`)."""

    url: str
    table: str
    mode: Literal["append", "upsert"] = "append"
    keys: tuple[str, ...] = ()
    order_by: str = ""
    options: Mapping[str, str] = {}

    def __str__(self) -> str:
        return f"PostgreSQL table {self.table}"

    def __repr__(self) -> str:
        return f"PostgresSink({self.table})"  # a password does not belong into a log


Source = JournalEnd | LakeTable | LakeChanges
End = JournalEnd | LakeSink | PostgresSink


def journal(name: str, *, schema: str = "", **options: str) -> JournalEnd:
    """A journal, as a source or as a sink; options are those of the format `journal`."""
    return JournalEnd(name, schema, options)


def postgres(
    url: str,
    table: str,
    *,
    mode: Literal["append", "upsert"] = "append",
    keys: Sequence[str] = (),
    order_by: str = "",
) -> PostgresSink:
    """Return a table of a PostgreSQL database as a sink. A table that is missing is made.

    With `mode="upsert"` a row replaces the row of the same `keys`, unless its `order_by` is older.

        postgres("postgresql://shop@db/shop", "revenue", mode="upsert", keys=["sku"])
    """
    if mode not in ("append", "upsert"):
        raise InvalidArgument(f"mode {mode!r}: expected append or upsert")
    if bool(keys) != (mode == "upsert"):
        raise InvalidArgument(f"{table}: mode upsert needs keys, and mode append has none")
    return PostgresSink(url, table, mode, tuple(keys), order_by)


class _Lake:
    """`lake(...)` is a sink; `lake.table` and `lake.changes` are sources."""

    def __call__(
        self,
        url: str,
        *,
        mode: Literal["append", "complete"] = "append",
        partition_by: Sequence[str] = (),
        checks: Mapping[str, Check] | None = None,
        **options: str,
    ) -> LakeSink:
        """A table to fill. With checks, batches land on a branch of their own, and are merged if they pass."""
        if mode not in ("append", "complete"):
            raise InvalidArgument(f"mode {mode!r}: expected append or complete")
        table_url(url)
        return LakeSink(url, mode, tuple(partition_by), dict(checks or {}), options)

    def table(self, url: str, **options: str) -> LakeTable:
        table_url(url)
        return LakeTable(url, options)

    def changes(self, url: str, **options: str) -> LakeChanges:
        table_url(url)
        return LakeChanges(url, options)


lake = _Lake()
