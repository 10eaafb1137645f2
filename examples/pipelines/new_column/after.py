"""Events after their schema has gained a column."""

from pyspark.sql import DataFrame

from penstock.spark import Pipeline, journal, lake

pipeline = Pipeline("events")


@pipeline.flow(
    source=journal("events/all", schema="id long, kind string, colour string"),
    sink=lake("lake://examples@main/events", partition_by=["kind"]),
)
def events(raw: DataFrame) -> DataFrame:
    """Return every event."""
    return raw
