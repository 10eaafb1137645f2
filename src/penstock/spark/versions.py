"""What differs between PySpark 4.0, 4.1, 4.2 and 4.3: the one module that looks at Spark's version and inside.

Everything else in this package is written for the newest release. What an older one lacks is made here, under the same
name. Invariants: a module of PySpark that is not in all four is imported here and nowhere else
(`tests/spark/test_versions.py` looks), and so is each name that Spark does not promise to keep.
"""

import ast
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec
import pyspark

from penstock.kernel.errors import ConfigError

_major, _minor, *_rest = pyspark.__version__.split(".")
SPARK: Final = (int(_major), int(_minor))
OLDEST: Final = (4, 0)
if SPARK < OLDEST:
    raise ConfigError(
        f"PySpark {pyspark.__version__} is here, and penstock.spark works with PySpark 4.0 to 4.3",
        next_step="pip install 'penstock[spark]'",
    )

from pyspark.errors import PySparkException  # noqa: E402  # a PySpark too old lacks these, and was refused above
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamWriter  # noqa: E402
from pyspark.sql.pandas import types as pandas_types  # noqa: E402
from pyspark.sql.types import StructType  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "BATCH_PROPERTY",
    "HAS_READ_LIMITS",
    "JOB_PROPERTY",
    "QUERY_PROPERTY",
    "SPARK",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "SupportsTriggerAvailableNow",
    "executor_file",
    "from_arrow",
    "hadoop_version",
    "progress_offset",
    "register_format",
    "to_arrow",
]

# Properties of a stream's tasks. Names of Spark's own, not of its API.
QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"
JOB_PROPERTY: Final = "spark.jobGroup.id"
# Spark asks a source for offsets from a start up to a limit, and lets it fix its end (AvailableNow). Before 4.2 it asks
# for the latest offset alone.
HAS_READ_LIMITS: Final = SPARK >= (4, 2)

if TYPE_CHECKING or HAS_READ_LIMITS:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
else:

    class ReadLimit:
        """How much a batch may read."""

    class ReadAllAvailable(ReadLimit):
        """Everything."""

    @dataclass
    class ReadMaxBytes(ReadLimit):
        """At most this many bytes."""

        max_bytes: int

    class SupportsTriggerAvailableNow:
        """A source that can fix where it ends."""


if TYPE_CHECKING or SPARK >= (4, 1):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """A sink of streams that is given record batches: 4.0 gives them to each writer that is an Arrow writer."""


def to_arrow(schema: StructType) -> Any:
    """Return the Arrow schema that Spark expects of a DataFrame's schema. Times are in UTC."""
    if SPARK >= (4, 2):
        return pandas_types.to_arrow_schema(schema, timezone="UTC")
    return pandas_types.to_arrow_schema(schema)


def from_arrow(schema: Any, *, ntz: bool = False) -> StructType:
    """Return the DataFrame's schema of an Arrow schema. Times without a zone stay so, or are in the session's."""
    return pandas_types.from_arrow_schema(schema, prefer_timestamp_ntz=ntz)


@contextmanager
def executor_file() -> Iterator[IO[bytes]]:
    """Open the connection to the executor that started this worker by itself, without a daemon."""
    worker_util: Any = importlib.import_module("pyspark.worker_util")

    if hasattr(worker_util, "get_sock_file_to_executor"):
        with worker_util.get_sock_file_to_executor() as file:
            yield file
        return
    port, secret = int(os.environ["PYTHON_WORKER_FACTORY_PORT"]), os.environ["PYTHON_WORKER_FACTORY_SECRET"]
    file, _ = worker_util.local_connect_and_auth(port, secret)
    worker_util.write_int(os.getpid(), file)
    file.flush()
    try:
        yield file
    finally:
        file.close()


def register_format(spark: "SparkSession", kind: type[DataSource]) -> None:
    """Make a format known to a session. Spark 4.0 refuses one that it found by itself: ours, in `pyspark_<name>`."""
    try:
        spark.dataSource.register(kind)
    except PySparkException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def progress_offset(offset: Any) -> Any:
    """Return an offset as a query's progress has it: JSON, or Python's own text before 4.2. None if there is none."""
    if not isinstance(offset, str):
        return offset
    try:
        return msgspec.json.decode(offset)
    except msgspec.DecodeError:
        pass
    try:
        return ast.literal_eval(offset)
    except (ValueError, SyntaxError):
        return None


def hadoop_version() -> str:
    """Return the version of the Hadoop client in this PySpark: what `hadoop-aws` must have too."""
    return {(4, 0): "3.4.1", (4, 1): "3.4.2"}.get(SPARK, "3.5.0")
