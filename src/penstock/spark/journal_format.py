"""The format `journal`: reads journals into DataFrames and writes DataFrames into journals, in batches and streams."""

from pyspark.sql.datasource import DataSource

__all__ = ["JournalFormat"]


class JournalFormat(DataSource):
    """`spark.read.format("journal")`, and the same for streams and writers."""

    @classmethod
    def name(cls) -> str:
        return "journal"
