"""The format `journal`: reads journals into DataFrames and writes DataFrames into journals, in batches and streams.

Spark makes objects of this class wherever it needs one: on the driver for planning, for every batch of a sink, in a
process of its own for a streaming source. So they hold nothing but their options.
"""

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.base.errors import InvalidArgument
from penstock.spark.journal_sink import JournalStreamWriter, JournalWriter
from penstock.spark.journal_source import JournalReader, JournalStreamReader, Planner
from penstock.spark.options import OPTIONS, sink_options, source_options
from penstock.spark.schemas import find_schema

__all__ = ["JournalFormat"]

STREAM_ONLY = frozenset(each.name.lower() for each in OPTIONS if "stream" in each.of and "read" not in each.of)


class JournalFormat(DataSource):
    """`spark.read.format("journal")`, and the same for streams and writers."""

    @classmethod
    def name(cls) -> str:
        return "journal"

    def schema(self) -> StructType:
        """The schema which the messages have. Asked for only where the user declares none."""
        given = dict(self.options)
        options = source_options(given, is_stream=any(name.lower() in STREAM_ONLY for name in given))
        planner = Planner(options, StructType())
        return find_schema(planner.access, options, list(planner.journals().values()))

    def reader(self, schema: StructType) -> DataSourceReader:
        return JournalReader(source_options(_plain(self.options), is_stream=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return JournalStreamReader(source_options(_plain(self.options), is_stream=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        _refuse(overwrite)
        return JournalWriter(sink_options(_plain(self.options), is_stream=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        _refuse(overwrite)
        return JournalStreamWriter(sink_options(_plain(self.options), is_stream=True))


def _refuse(overwrite: bool) -> None:
    if overwrite:
        raise InvalidArgument(
            "journals are only ever appended to: use mode append, not overwrite or complete",
            next_step="complete results belong into a lake table",
        )


def _plain(options: Mapping[str, str]) -> dict[str, str]:
    return dict(options)
