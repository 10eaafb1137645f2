"""The format `journal`: reads journals into DataFrames and writes DataFrames into journals, in batches and streams.

Spark makes objects of this class wherever it needs one: on the driver for planning, for every batch of a sink, in a
process of its own for a streaming source. So they hold nothing but their options, and load what a process needs only
when it needs it: a cold query starts half a dozen of them.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.kernel.errors import InvalidArgument

__all__ = ["JournalFormat"]


class JournalFormat(DataSource):
    """`spark.read.format("journal")`, and the same for streams and writers."""

    @classmethod
    def name(cls) -> str:
        return "journal"

    def schema(self) -> StructType:
        """The schema which the messages have. Asked for only where the user declares none."""
        from penstock.spark.journals.journal_source import Planner
        from penstock.spark.options import has_stream_option, source_options
        from penstock.spark.shared.schemas import find_schema

        given = dict(self.options)
        options = source_options(given, is_stream=has_stream_option(given))
        planner = Planner(options, StructType())
        return find_schema(planner.access, options, list(planner.journals().values()))

    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark.journals.journal_source import JournalReader
        from penstock.spark.options import source_options

        return JournalReader(source_options(dict(self.options), is_stream=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from penstock.spark.journals.journal_source import JournalStreamReader
        from penstock.spark.options import source_options

        return JournalStreamReader(source_options(dict(self.options), is_stream=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.journals.journal_sink import JournalWriter
        from penstock.spark.options import sink_options

        _refuse(overwrite)
        return JournalWriter(sink_options(dict(self.options), is_stream=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.spark.journals.journal_sink import JournalStreamWriter
        from penstock.spark.options import sink_options

        _refuse(overwrite)
        return JournalStreamWriter(sink_options(dict(self.options), is_stream=True))


def _refuse(overwrite: bool) -> None:
    if overwrite:
        raise InvalidArgument(
            "journals are only ever appended to: use mode append, not overwrite or complete",
            next_step="complete results belong into a lake table",
        )
