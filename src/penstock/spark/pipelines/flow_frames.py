"""Check the DataFrames that a flow returns against its sinks, before a query starts. Design: spark-2.md S3, S4."""

from collections.abc import Mapping
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from penstock.kernel.errors import InvalidArgument
from penstock.spark.pipelines.ends import LakeSink
from penstock.spark.pipelines.pipeline import Flow
from penstock.spark.pipelines.plans import keeping_state
from penstock.spark.tables.lake_access import access_from, table_url
from penstock.spark.tables.lake_format import check_types
from penstock.spark.tables.table_columns import plan_table

__all__ = ["check_frames"]

WHOLE: Final = "Aggregate"


def check_frames(flow: Flow, frames: Mapping[str, DataFrame]) -> None:
    """Refuse a flow whose results its sinks cannot keep, with the sink and the column."""
    for name, frame in frames.items():
        end = flow.sinks[name]
        if isinstance(end, LakeSink):
            _check_table(flow, end, frame)


def _check_table(flow: Flow, end: LakeSink, frame: DataFrame) -> None:
    check_types(frame.schema, where=f"{flow.sink}, {end}: ")
    if end.mode == "append":
        plan_table(access_from(end.options), table_url(end.url), frame.schema, where=f"{flow.sink}, {end}: ")
    for column in end.partition_by:
        if column not in frame.schema.names:
            known = ", ".join(frame.schema.names)
            raise InvalidArgument(f"{flow.sink}, {end}: partition_by names {column!r}; the columns are {known}")
    for what, check in end.checks.items():
        if isinstance(check, str):
            _check_condition(flow, end, what, check, frame)
    if end.mode == "complete" and WHOLE not in keeping_state(frame):
        raise InvalidArgument(
            f"{flow.sink}, {end}: mode complete replaces the table by the result of each batch, "
            "and only an aggregation has a result of all rows; use mode append"
        )


def _check_condition(flow: Flow, end: LakeSink, what: str, check: str, frame: DataFrame) -> None:
    try:
        frame.where(check).schema  # noqa: B018  # Spark looks at the condition when it is asked for the schema
    except PySparkException as error:
        raise InvalidArgument(f"{flow.sink}, {end}: check {what!r} ({check}): {error.getMessage()}") from None
