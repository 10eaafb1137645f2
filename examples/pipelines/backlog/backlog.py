"""A long backlog: history by batch jobs, then the stream."""

from pyspark.sql import DataFrame

from penstock.spark import Pipeline, journal, lake

pipeline = Pipeline("backlog", interval="30s")


@pipeline.flow(
    source=journal("backlog/orders", schema="id long, amount decimal(9,2)"),
    sink=lake("lake://examples@main/backlog", checks={"amounts are positive": "amount > 0"}),
)
def backlog(orders: DataFrame) -> DataFrame:
    """Return every order. A flow that keeps no state has a backfill."""
    return orders.where("amount > 0")
