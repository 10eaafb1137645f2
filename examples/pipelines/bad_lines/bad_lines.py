"""JSON with lines that are none: they are passed over, and counted in Spark's log."""

from pyspark.sql import DataFrame

from penstock.spark import Pipeline, journal, lake

pipeline = Pipeline("readings")


@pipeline.flow(
    source=journal("readings/raw", schema="sensor string, value double", onBad="skip"),
    sink=lake("lake://examples@main/readings"),
)
def readings(raw: DataFrame) -> DataFrame:
    """Return every reading that has a value."""
    return raw.where("value IS NOT NULL")
