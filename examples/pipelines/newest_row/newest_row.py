"""Changes of a database as a table: the newest row of each key, without the deleted ones."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.spark import Pipeline, journal, lake

pipeline = Pipeline("customers")


@pipeline.flow(
    source=journal("customers/changes", schema="id long, version long, name string, deleted boolean"),
    sink=lake("lake://examples@main/customers", mode="complete"),
)
def customers(changes: DataFrame) -> DataFrame:
    """Return the customers as they are now. An older change that comes late changes nothing."""
    newest = changes.groupBy("id").agg(F.max_by(F.struct("version", "name", "deleted"), "version").alias("row"))
    return newest.where("NOT row.deleted").selectExpr("id", "row.version AS version", "row.name AS name")
