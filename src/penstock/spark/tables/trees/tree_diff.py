"""What two commits have differently, as a Spark job: for trees of many millions of entries.

Equal ranges have equal ids, whatever their history, so ranges that both sides have are not read at all: a small change
of a large tree costs only the changed ranges.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark.tables.table import entries_of, read_ranges

__all__ = ["diff_entries"]

# What makes an entry the content it is; without an ETag, its address says what the bytes are.
_IDENTITY: Final = ("coalesce(nullif({0}.etag, ''), {0}.address)", "{0}.size", "{0}.content_type", "{0}.metadata")


def diff_entries(spark: SparkSession, left: str, right: str, *, options: Mapping[str, str] | None = None) -> DataFrame:
    """A row for each path which differs: `path`, `kind` (added, removed, changed), and the entries of both sides."""
    sides = [read_ranges(spark, url, options=options) for url in (left, right)]
    old, new = (
        entries_of(spark, mine.join(other.select("id"), "id", "left_anti"))
        for mine, other in (sides, list(reversed(sides)))
    )
    joined = old.alias("old").join(new.alias("new"), F.expr("old.path <=> new.path"), "full_outer")
    differs = [f"NOT ({one.format('old')} <=> {one.format('new')})" for one in _IDENTITY]
    kind = F.expr("CASE WHEN old.path IS NULL THEN 'added' WHEN new.path IS NULL THEN 'removed' ELSE 'changed' END")
    return joined.where(" OR ".join(differs)).select(
        F.coalesce("old.path", "new.path").alias("path"),
        kind.alias("kind"),
        F.col("old.address").alias("old_address"),
        F.col("old.size").alias("old_size"),
        F.col("new.address").alias("new_address"),
        F.col("new.size").alias("new_size"),
    )
