"""Check the DataFrames that a flow returns against its sinks, before a query starts. Design: spark-2.md S3, S4."""

from collections.abc import Mapping
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import DoubleType, FloatType

from penstock.kernel.errors import InvalidArgument
from penstock.spark.pipelines.ends import LakeSink, PostgresSink
from penstock.spark.pipelines.pipeline import Flow
from penstock.spark.pipelines.plans import keeping_state
from penstock.spark.tables.lake_access import access_from, table_url
from penstock.spark.tables.lake_format import check_types
from penstock.spark.tables.table_columns import plan_table

__all__ = ["check_frames", "output_mode_of"]

WHOLE: Final = "Aggregate"


def check_frames(flow: Flow, frames: Mapping[str, DataFrame]) -> None:
    """Refuse a flow whose results its sinks cannot keep, with the sink and the column."""
    for name, frame in frames.items():
        end = flow.sinks[name]
        if isinstance(end, LakeSink):
            _check_table(flow, end, frame)
        if isinstance(end, PostgresSink):
            _check_database(flow, end, frame)


def output_mode_of(flow: Flow, frames: Mapping[str, DataFrame]) -> str:
    """Return the mode of the query: `update` if the rows of an upsert change with each batch. Design: S3.

    In such a query Spark emits a changed window again, so a sink that appends may not keep state.
    """
    stateful = {name: found for name, frame in frames.items() if (found := keeping_state(frame))}
    ends = flow.sinks
    upserts = {name for name, end in ends.items() if isinstance(end, PostgresSink) and end.mode == "upsert"}
    if not upserts & set(stateful):
        return flow.output_mode
    for name, operators in stateful.items():
        if name not in upserts:
            raise InvalidArgument(
                f"{flow.sink}, {ends[name]}: it appends rows that change ({', '.join(operators)}), because another "
                "sink of the flow is an upsert with state; use a flow of its own"
            )
    return "update"


def _check_database(flow: Flow, end: PostgresSink, frame: DataFrame) -> None:
    missing = [each for each in (*end.keys, end.order_by) if each and each not in frame.schema.names]
    if missing:
        known = ", ".join(frame.schema.names)
        raise InvalidArgument(f"{flow.sink}, {end}: no column {', '.join(missing)}; the columns are {known}")
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    floats = [each for each in end.keys if isinstance(kinds[each], FloatType | DoubleType)]
    if floats:
        raise InvalidArgument(f"{flow.sink}, {end}: key {floats[0]} is a floating-point number, which equals no other")


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
