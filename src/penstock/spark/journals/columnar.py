"""Journals as DataFrames, read as columns: by Java where it can, by Python workers where not. Decision 603.

    read_journal(spark, "shop/orders", brokers="127.0.0.1:7201", schema="id long, price double")

The same rows as `spark.read.format("journal")` gives, with the same options, in less time: Spark makes rows of
everything which its Python sources hand out, one by one, before a query sees it. And a query's columns are known here:
others are not decoded. Rows come in no order which anybody may count on.
"""

import sys
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.process.logs import get_logger
from penstock.spark.journals.column_plan import plan_parts, plan_text
from penstock.spark.journals.java_source import CLASS, add_jar, has_jvm, known_here
from penstock.spark.journals.journal_source import JournalReader, Planner
from penstock.spark.options import SourceOptions, source_options
from penstock.spark.shared.schemas import find_schema

__all__ = ["read_journal", "schema_of"]

DAEMON: Final = ("spark.python.daemon.module", "pyspark.daemon")
USES_DAEMON: Final = ("spark.python.use.daemon", "true")
log = get_logger()


def read_journal(
    spark: SparkSession, path: str = "", *, schema: StructType | str | None = None, **options: object
) -> DataFrame:
    """Return the content of journals, up to their present ends. `path` is a journal's name, or a prefix which ends in
    `/`; `schema` is found in the first messages if it is not given; options are those of the format `journal`, like
    `brokers="127.0.0.1:7201"`, `isolation="uncommitted"` or `startingOffsets='{"shop/orders": 4096}'`.

        orders = read_journal(spark, "shop/orders", schema="id long, product string, price double")
        orders.groupBy("product").sum("price").show()
    """
    given = {name: _text(value) for name, value in options.items()}
    if path:
        given["path"] = path
    if not has_jvm(spark) or not _knows_source(spark):
        return _by_format(spark, given, schema)
    chosen = source_options(given, is_stream=False)
    found = schema_of(chosen, schema)
    parts = plan_parts(JournalReader(chosen, found), are_files_shared=_is_local(spark))
    plan = plan_text(parts, _workers(spark))
    with known_here(spark):
        return spark.read.format(CLASS).schema(found).option("plan", plan).load()


def _text(value: object) -> str:
    """
    >>> _text(True), _text(4096), _text("latest")
    ('true', '4096', 'latest')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def _by_format(spark: SparkSession, given: dict[str, str], schema: StructType | str | None) -> DataFrame:
    reader = spark.read.format("journal").options(**given)
    return (reader if schema is None else reader.schema(schema)).load()


def _knows_source(spark: SparkSession) -> bool:
    try:
        add_jar(spark)
    except Py4JError as error:
        log.warning("journals are read as rows, because the source in Java was not compiled", reason=str(error))
        return False
    return True


def schema_of(options: SourceOptions, schema: StructType | str | None) -> StructType:
    """The schema: as it is given, or as the first messages have it."""
    if schema is not None:
        found = StructType.fromDDL(schema) if isinstance(schema, str) else schema
        if not isinstance(found, StructType):
            raise InvalidArgument(
                f"{schema} is not the schema of a DataFrame", next_step='like "id long, price double"'
            )
        return found
    planner = Planner(options, StructType())
    return find_schema(planner.access, options, list(planner.journals().values()))


def _is_local(spark: SparkSession) -> bool:
    """Do tasks run on this machine, and so see its files?"""
    return str(spark.sparkContext.master).startswith("local")


def _workers(spark: SparkSession) -> dict[str, Any]:
    """Return how to start workers: as Spark starts those of its own Python sources."""
    context = spark.sparkContext
    settings = context.getConf()
    return {
        "python": context.pythonExec or sys.executable,
        "daemon": settings.get(*DAEMON),
        "has_daemon": settings.get(*USES_DAEMON) == "true",
        "environment": {**context.environment, "SPARK_REUSE_WORKER": "1"},
    }
