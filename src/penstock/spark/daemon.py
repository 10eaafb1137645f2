"""PySpark's daemon, from which Python workers are forked, with everything they need loaded before the first fork.

Spark asks a new worker for every plan of a source and every group of tasks, and each would load Arrow, pandas and this
package again: seconds of a processor for milliseconds of work. `spark.python.daemon.module` names this module, and
PySpark's own is what runs in it. Invariant: nothing here starts a thread or opens anything, because forked workers
would inherit it broken.
"""

import gc
import importlib
from typing import Final

import pyarrow as pa
from pyspark.daemon import manager

from penstock.kernel.ids import Offset
from penstock.messages.row_decoder import JsonRows
from penstock.messages.rows_reader import RowsReader

__all__ = ["LOADED"]

LOADED: Final = (
    "pandas",
    "pyarrow.json",
    "pyarrow.parquet",
    "pyspark.sql.pandas.types",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
    "pyspark_journal.columns",
    "penstock.spark.journals.column_worker",
    "penstock.spark.journals.journal_sink",
    "penstock.spark.journals.journal_source",
    "penstock.spark.tables.lake_reader",
    "penstock.spark.tables.lake_sink",
    "penstock.spark.tables.lake_stream",
)


def _load_kernels() -> None:
    """Read a line, so that the kernels are loaded: from disk in a second, or compiled in a few more."""
    reader = RowsReader("a line", JsonRows(pa.schema([("n", pa.int64())])))
    reader.feed(Offset(0), b'{"n":1}\n')
    reader.next()


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    _load_kernels()
    gc.collect()
    gc.freeze()  # a worker's garbage is not looked for among what all of them share
    manager()
