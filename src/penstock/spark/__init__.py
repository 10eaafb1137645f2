"""Spark sources, sinks, pipelines and maintenance jobs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Make the formats `journal` and `lake` known to a session."""
    from penstock.spark.journal_format import JournalFormat

    spark.dataSource.register(JournalFormat)
