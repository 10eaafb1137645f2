"""Orders from a journal into the lake, exactly once: penstock pipeline run examples/revenue.py"""

from pyspark.sql import DataFrame

from penstock.spark import Pipeline, journal, lake

pipeline = Pipeline("revenue")

ORDERS = journal("shop/orders", schema="sku string, quantity int, price decimal(9,2)")


@pipeline.flow(
    source=ORDERS,
    sink=lake("lake://shop@main/orders", checks={"quantities are positive": "quantity > 0"}),
)
def orders(raw: DataFrame) -> DataFrame:
    """Every order, with what it comes to."""
    return raw.where("quantity > 0").selectExpr("*", "cast(quantity * price AS decimal(18,2)) AS amount")


@pipeline.flow(source=ORDERS, sink=lake("lake://shop@main/revenue", mode="complete"))
def revenue(raw: DataFrame) -> DataFrame:
    """What each product has brought in so far."""
    amounts = raw.where("quantity > 0").selectExpr("sku", "quantity * price AS amount")
    return amounts.groupBy("sku").agg({"amount": "sum"}).withColumnRenamed("sum(amount)", "amount")
