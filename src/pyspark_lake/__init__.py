"""Where PySpark finds the format `lake` by itself. One such module which fails to import hides all of them."""

from penstock.spark.tables.lake_format import LakeFormat as DefaultSource

__all__ = ["DefaultSource"]
