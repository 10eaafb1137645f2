"""Orders with the price of their product, from a table that changes."""

from pyspark.sql import DataFrame

from penstock.spark import Pipeline, journal, lake

pipeline = Pipeline("priced")


@pipeline.flow(
    source={
        "orders": journal("priced/orders", schema="id long, sku string, quantity int"),
        "products": lake.table("lake://examples@main/products"),
    },
    sink=lake("lake://examples@main/priced"),
)
def priced(orders: DataFrame, products: DataFrame) -> DataFrame:
    """Return each order with its amount, by the prices of the table when the run began."""
    return orders.join(products, "sku").selectExpr("id", "sku", "quantity * price AS amount")
