"""The demo's pipeline: orders from a journal become enriched rows and totals per product in the lake.

`penstock demo` runs this file as anybody would: penstock pipeline run demo_pipeline.py
"""

from pyspark.sql import DataFrame

from penstock.spark import Pipeline, journal, lake

pipeline = Pipeline("demo", interval="500ms")

ORDERS = journal(
    "shop/orders",
    schema="id long, sku string, quantity int, price decimal(9,2)",
    maxBytesPerTrigger="200000",  # so that there are many batches to strike at
)


@pipeline.flow(
    source={"orders": ORDERS, "products": lake.table("lake://shop@main/products")},
    sink=lake("lake://shop@ingest/orders"),
)
def enriched(orders: DataFrame, products: DataFrame) -> DataFrame:
    """Join every order with its product's name and its amount."""
    rows = orders.join(products, "sku", "left")
    return rows.selectExpr(
        "id", "sku", "name", "quantity", "price", "cast(quantity * price AS decimal(18,2)) AS amount"
    )


@pipeline.flow(source=ORDERS, sink=lake("lake://shop@ingest/totals", mode="complete"))
def totals(orders: DataFrame) -> DataFrame:
    """Count the orders of each product, and sum their amounts."""
    amounts = orders.selectExpr("sku", "cast(quantity * price AS decimal(18,2)) AS amount")
    summed = amounts.groupBy("sku").agg({"sku": "count", "amount": "sum"})
    return summed.selectExpr("sku", "`count(sku)` AS orders", "`sum(amount)` AS amount")
