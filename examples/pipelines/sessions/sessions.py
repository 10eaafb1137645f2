"""Sessions of users: clicks with at most ten minutes between them, by event time."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.spark import Pipeline, journal, lake

pipeline = Pipeline("sessions")


@pipeline.flow(
    source=journal("sessions/clicks", schema="user string, page string, at timestamp"),
    sink=lake("lake://examples@main/sessions"),
)
def sessions(clicks: DataFrame) -> DataFrame:
    """Return a row for each session that is over: a click more than ten minutes later has come."""
    gaps = F.session_window("at", "10 minutes")
    counted = clicks.withWatermark("at", "1 minute").groupBy("user", gaps).count()
    return counted.selectExpr("user", "session_window.start AS begin", "session_window.end AS end", "count AS clicks")
