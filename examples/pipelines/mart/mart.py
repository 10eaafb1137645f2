"""Totals by product in PostgreSQL, and each order next to them: one transaction for each batch."""

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.spark import Pipeline, journal, postgres

pipeline = Pipeline("mart")
URL = os.environ.get("MART_URL", "postgresql://localhost/shop")
ORDERS = journal("mart/orders", schema="id long, sku string, amount decimal(9,2)")


@pipeline.flow(source=ORDERS, sink=postgres(URL, "totals", mode="upsert", keys=["sku"]))
def totals(orders: DataFrame) -> DataFrame:
    """Return what each product has brought in so far."""
    return orders.groupBy("sku").agg(F.sum("amount").alias("amount"), F.count("*").alias("orders"))


@pipeline.flow(source=ORDERS, sink=postgres(URL, "orders"))
def orders(raw: DataFrame) -> DataFrame:
    """Return every order."""
    return raw
