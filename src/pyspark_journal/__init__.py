"""Where PySpark finds the format `journal` by itself. One such module which fails to import hides all of them."""

from penstock.spark.journals.journal_format import JournalFormat as DefaultSource

__all__ = ["DefaultSource"]
