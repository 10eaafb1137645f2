"""Spark sources, sinks, pipelines and maintenance jobs.

import penstock.spark

penstock.spark.register(spark)      # the formats `journal` and `lake`; PySpark also finds them by itself
penstock.spark.read_journal(spark, "shop/orders", brokers="127.0.0.1:7201")
penstock.spark.read_table(spark, "lake://shop@main/orders")

What is asked for is loaded when it is asked for: Spark's workers import this package for every small part of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.columnar import read_journal
    from penstock.spark.compaction import compact
    from penstock.spark.ends import journal, lake
    from penstock.spark.pipeline import Pipeline
    from penstock.spark.table import read_changes, read_entries, read_ranges, read_table
    from penstock.spark.together import commit_together
    from penstock.spark.tree_diff import diff_entries
    from penstock.spark.tree_garbage import find_garbage
    from penstock.spark.tree_import import import_entries

__all__ = [
    "Pipeline",
    "commit_together",
    "compact",
    "diff_entries",
    "find_garbage",
    "import_entries",
    "journal",
    "lake",
    "read_changes",
    "read_entries",
    "read_journal",
    "read_ranges",
    "read_table",
    "register",
]

_HOMES = {
    "Pipeline": "penstock.spark.pipeline",
    "commit_together": "penstock.spark.together",
    "compact": "penstock.spark.compaction",
    "diff_entries": "penstock.spark.tree_diff",
    "find_garbage": "penstock.spark.tree_garbage",
    "import_entries": "penstock.spark.tree_import",
    "journal": "penstock.spark.ends",
    "lake": "penstock.spark.ends",
    "read_changes": "penstock.spark.table",
    "read_entries": "penstock.spark.table",
    "read_journal": "penstock.spark.columnar",
    "read_ranges": "penstock.spark.table",
    "read_table": "penstock.spark.table",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"penstock.spark has no {name}")
    return getattr(import_module(home), name)


def register(spark: "SparkSession") -> None:
    """Make the formats `journal` and `lake` known to a session."""
    from penstock.spark.journal_format import JournalFormat
    from penstock.spark.lake_format import LakeFormat

    spark.dataSource.register(JournalFormat)
    spark.dataSource.register(LakeFormat)
