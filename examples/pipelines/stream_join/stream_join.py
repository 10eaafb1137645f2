"""Which advertisement was clicked: two streams, joined by id and time."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.spark import Pipeline, journal, lake

pipeline = Pipeline("ads")


@pipeline.flow(
    source={
        "shown": journal("ads/shown", schema="ad long, page string, at timestamp"),
        "clicked": journal("ads/clicked", schema="ad long, at timestamp"),
    },
    sink=lake("lake://examples@main/ads"),
)
def ads(shown: DataFrame, clicked: DataFrame) -> DataFrame:
    """Return each click within ten minutes after its advertisement was shown."""
    left = shown.withWatermark("at", "10 minutes").alias("s")
    right = clicked.withWatermark("at", "10 minutes").alias("c")
    in_time = F.expr("s.ad = c.ad AND c.at BETWEEN s.at AND s.at + INTERVAL 10 MINUTES")
    return left.join(right, in_time).selectExpr("s.ad AS ad", "s.page AS page", "c.at AS clicked_at")
