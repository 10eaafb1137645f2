"""From a journal into a journal: large orders alone, each once, in the order of their commits."""

from pyspark.sql import DataFrame

from penstock.spark import Pipeline, journal

pipeline = Pipeline("large")


@pipeline.flow(
    source=journal("filter/orders", schema="id long, amount decimal(9,2)"),
    sink=journal("filter/large"),
)
def large(orders: DataFrame) -> DataFrame:
    """Return the orders of 100 and more."""
    return orders.where("amount >= 100")
