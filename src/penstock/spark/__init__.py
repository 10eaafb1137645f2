"""Spark sources, sinks, pipelines and maintenance jobs.

import penstock.spark

penstock.spark.register(spark)      # the formats `journal` and `lake`; PySpark also finds them by itself
penstock.spark.read_journal(spark, "shop/orders", brokers="127.0.0.1:7201")
penstock.spark.read_table(spark, "lake://shop@main/orders")

Names are loaded at their first use: Spark's workers import this package for every small part of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.kernel.extras import extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.journals.columnar import read_journal
    from penstock.spark.pipelines.compaction import compact
    from penstock.spark.pipelines.ends import journal, lake, postgres
    from penstock.spark.pipelines.pipeline import Pipeline
    from penstock.spark.pipelines.rewrite import rewrite_table
    from penstock.spark.pipelines.together import commit_together
    from penstock.spark.tables.table import read_changes, read_entries, read_ranges, read_table
    from penstock.spark.tables.trees.tree_diff import diff_entries
    from penstock.spark.tables.trees.tree_garbage import find_garbage
    from penstock.spark.tables.trees.tree_import import import_entries

__all__ = [
    "Pipeline",
    "commit_together",
    "compact",
    "diff_entries",
    "find_garbage",
    "import_entries",
    "journal",
    "lake",
    "postgres",
    "read_changes",
    "read_entries",
    "read_journal",
    "read_ranges",
    "read_table",
    "register",
    "rewrite_table",
]

_HOMES = {
    "Pipeline": "penstock.spark.pipelines.pipeline",
    "commit_together": "penstock.spark.pipelines.together",
    "compact": "penstock.spark.pipelines.compaction",
    "diff_entries": "penstock.spark.tables.trees.tree_diff",
    "find_garbage": "penstock.spark.tables.trees.tree_garbage",
    "import_entries": "penstock.spark.tables.trees.tree_import",
    "journal": "penstock.spark.pipelines.ends",
    "postgres": "penstock.spark.pipelines.ends",
    "lake": "penstock.spark.pipelines.ends",
    "read_changes": "penstock.spark.tables.table",
    "read_entries": "penstock.spark.tables.table",
    "read_journal": "penstock.spark.journals.columnar",
    "read_ranges": "penstock.spark.tables.table",
    "read_table": "penstock.spark.tables.table",
    "rewrite_table": "penstock.spark.pipelines.rewrite",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"penstock.spark has no {name}")
    with extra("spark", f"penstock.spark.{name}"):
        import_module("penstock.spark.versions")  # refuses a PySpark that is too old
        return getattr(import_module(home), name)


def register(spark: "SparkSession") -> None:
    """Make the formats `journal` and `lake` known to a session."""
    with extra("spark", "penstock.spark.register"):
        from penstock.spark.versions import register_format  # isort: skip  # refuses a PySpark that is too old
        from penstock.spark.journals.journal_format import JournalFormat
        from penstock.spark.tables.lake_format import LakeFormat

    register_format(spark, JournalFormat)
    register_format(spark, LakeFormat)
