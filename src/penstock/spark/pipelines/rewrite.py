"""Rewrite a table: read it, change its rows, write them, and begin again after a conflict. spark-2.md S13.

    rewrite_table(spark, "lake://shop@main/orders", lambda orders: orders.where("day >= '2026-01-01'"))

The lake commits the new rows only if the table is as in the commit that was read, so no row of another writer is lost.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from penstock.kernel.errors import InvalidArgument, TableChanged
from penstock.lake.records.sink_batch import BatchOutcome
from penstock.spark.pipelines.staging import TableStage, stage_tables
from penstock.spark.pipelines.tagged import tagged
from penstock.spark.tables.lake_access import access_from, table_url
from penstock.spark.tables.lake_commit import Batch, commit_batch
from penstock.spark.tables.lake_format import check_types
from penstock.spark.tables.lake_tree import place_at
from penstock.spark.tables.staging_place import place_of
from penstock.spark.tables.table import read_table
from penstock.spark.tables.table_columns import plan_table

__all__ = ["rewrite_table"]

TRIES: Final = 5


def rewrite_table(
    spark: SparkSession,
    url: str,
    function: Callable[[DataFrame], DataFrame],
    *,
    partition_by: Sequence[str] = (),
    message: str = "",
    options: Mapping[str, str] | None = None,
) -> BatchOutcome:
    """Replace all rows of a table by what a function makes of them, in one commit.

    The function is called again, on the new rows, if another writer commits to the table meanwhile.

        rewrite_table(spark, "lake://shop@main/orders", lambda orders: orders.dropDuplicates(["id"]))
    """
    access, target = access_from(options or {}), table_url(url)
    for tries_left in reversed(range(TRIES)):
        base = place_at(access, target).commit
        rows = function(read_table(spark, f"lake://{target.repository}@{base}/{target.path}", options=options))
        if not isinstance(rows, DataFrame):
            raise InvalidArgument(f"the function returned {type(rows).__name__}; it has to return a DataFrame")
        check_types(rows.schema)
        place = place_of(access, target)
        columns = plan_table(access, target, rows.schema, replaces=True)
        (files,) = stage_tables(tagged([rows]), place, [TableStage(columns, tuple(partition_by))]).files
        table = columns.table(place, files, base)
        assert table is not None
        batch = Batch(secrets.token_hex(16), message=message or f"Rewrite {target.path}")
        try:
            return commit_batch(access, target, place, batch, [table])
        except TableChanged:
            if not tries_left:
                raise
    raise AssertionError("the last try returns or raises")
