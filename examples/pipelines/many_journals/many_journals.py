"""A hundred journals into one table: one task and one file for a row of each."""

from pyspark.sql import DataFrame

from penstock.spark import Pipeline, journal, lake

pipeline = Pipeline("meters")


@pipeline.flow(
    source=journal("meters/", schema="_journal string, n long"),
    sink=lake("lake://examples@main/meters"),
)
def meters(raw: DataFrame) -> DataFrame:
    """Return every reading with the name of its meter."""
    return raw.selectExpr("substring_index(_journal, '/', -1) AS meter", "n")
