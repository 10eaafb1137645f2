"""Ways which rows take through Spark, each with the points at which its driver can be killed.

journal     one journal into two others, by a column: one commit has two journals
lake        a journal into a table of the lake
together    a journal into two tables of the lake, in one commit (`commit_together`, by a pipeline)
stateful    a journal into two tables, one of them by an operator that keeps state
audited     a journal into a table by way of a branch: committed, checked, merged
"""

from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import run_to_end
from tests.spark.histories import make
from tests.spark.journals.test_journal_sink import numbers_of

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.kernel.errors import NotFound
from penstock.spark import Pipeline, journal, lake
from penstock.spark.pipelines.running.pipeline_run import PipelineRun
from penstock.spark.tables.lake_access import access_from, table_url
from penstock.spark.tables.lake_tree import files_of, key_of

TRIGGER_BYTES = "2500"


class Place(msgspec.Struct, frozen=True):
    """Where one run of a route is: passed to drivers as JSON."""

    route: str
    brokers: str
    source: str
    target: str  # a prefix of journals, or of tables
    checkpoint: str
    lake: dict[str, str] = {}


class Route:
    """One way. The names of formats are those of the product, or of its killing subclasses."""

    points: ClassVar[tuple[str, ...]] = ()

    def prepare(self, place: Place, journals: BlockingJournals) -> None:
        """Make what rows go to."""

    def run(self, spark: SparkSession, place: Place, *, is_killing: bool = False) -> None:
        """Everything there is, then end."""
        raise NotImplementedError

    def seen(self, place: Place, journals: BlockingJournals) -> list[int]:
        """What a plain reader finds of all which was written."""
        raise NotImplementedError


def read(spark: SparkSession, place: Place, kind: str, trigger_bytes: str = TRIGGER_BYTES) -> DataFrame:
    reader = spark.readStream.format(kind).option("brokers", place.brokers)
    return reader.option("maxBytesPerTrigger", trigger_bytes).schema("n long").load(place.source)


class ToJournals(Route):
    """Even numbers into one journal, odd ones into the other."""

    points = (
        "source: planned",
        "source: before a state is kept",
        "source: after a state is kept",
        "sink: after a task",
        "sink: before the record",
        "sink: after the record",
        "sink: half published",
        "sink: published",
    )

    def prepare(self, place: Place, journals: BlockingJournals) -> None:
        for which in ("even", "odd"):
            make(journals, f"{place.target}/{which}")

    def run(self, spark: SparkSession, place: Place, *, is_killing: bool = False) -> None:
        kind = "killing" if is_killing else "journal"
        target = f"if(n % 2 = 0, '{place.target}/even', '{place.target}/odd') as _journal"
        frame = read(spark, place, kind).selectExpr("n", target)
        sink = frame.writeStream.format(kind).option("brokers", place.brokers).option("sink", place.target)
        sink = sink.option("checkpointLocation", place.checkpoint)
        run_to_end(sink)

    def seen(self, place: Place, journals: BlockingJournals) -> list[int]:
        return sorted(number for which in ("even", "odd") for number in numbers_of(journals, f"{place.target}/{which}"))


class ToLake(Route):
    """One commit of the lake for each batch."""

    points = (
        "source: planned",
        "source: after a state is kept",
        "sink: after a task",
        "sink: before the list",
        "sink: before the request",
        "sink: after the request",
    )

    def run(self, spark: SparkSession, place: Place, *, is_killing: bool = False) -> None:
        kind, sink = ("killing", "killing_lake") if is_killing else ("journal", "lake")
        writer = read(spark, place, kind).writeStream.format(sink).options(**place.lake).option("sink", "route")
        writer = writer.option("checkpointLocation", place.checkpoint)
        run_to_end(writer, f"{place.target}/rows")

    def seen(self, place: Place, journals: BlockingJournals) -> list[int]:
        return rows_of(place, "rows")


class Together(Route):
    """Even and odd numbers into tables of their own, committed as one."""

    points = ("sink: tables staged", "sink: before the request", "sink: after the request")

    def run(self, spark: SparkSession, place: Place, *, is_killing: bool = False) -> None:
        tables = {which: lake(f"{place.target}/{which}") for which in ("even", "odd")}

        def split(rows: DataFrame) -> dict[str, DataFrame]:
            return {"even": rows.where("n % 2 = 0"), "odd": rows.where("n % 2 = 1")}

        _run_pipeline(spark, place, tables, split)

    def seen(self, place: Place, journals: BlockingJournals) -> list[int]:
        return sorted(rows_of(place, "even") + rows_of(place, "odd"))


class Audited(Route):
    """By a branch of its own, checked there, and merged."""

    points = (
        "sink: before the request",
        "sink: after the request",
        "merge: before the request",
        "merge: after the request",
    )

    def run(self, spark: SparkSession, place: Place, *, is_killing: bool = False) -> None:
        table = lake(f"{place.target}/rows", checks={"numbers": "n >= 0"})
        _run_pipeline(spark, place, {"": table}, lambda rows: rows)

    def seen(self, place: Place, journals: BlockingJournals) -> list[int]:
        return rows_of(place, "rows")


class Stateful(Route):
    """Into two tables by one query: all rows, and the first row of each value, which only state can know."""

    VALUES = 40
    points = ("source: planned", "sink: tables staged", "sink: before the request", "sink: after the request")

    def run(self, spark: SparkSession, place: Place, *, is_killing: bool = False) -> None:
        tables = {which: lake(f"{place.target}/{which}") for which in ("raw", "once")}

        def split(rows: DataFrame) -> dict[str, DataFrame]:
            return {"raw": rows, "once": rows.selectExpr(f"n % {self.VALUES} AS n").dropDuplicates(["n"])}

        _run_pipeline(spark, place, tables, split)

    def seen(self, place: Place, journals: BlockingJournals) -> list[int]:
        raw = rows_of(place, "raw")
        assert rows_of(place, "once") == sorted({n % self.VALUES for n in raw})
        return raw


ROUTES: dict[str, Route] = {
    "journal": ToJournals(),
    "lake": ToLake(),
    "together": Together(),
    "audited": Audited(),
    "stateful": Stateful(),
}


def _run_pipeline(spark: SparkSession, place: Place, sinks: dict[str, Any], flow: Any) -> None:
    source = journal(place.source, schema="n long", maxBytesPerTrigger=TRIGGER_BYTES)
    pipeline = Pipeline("route", checkpoints=Path(place.checkpoint))
    pipeline.flow(source=source, sink=sinks.get("", sinks), name="rows")(flow)
    pipeline.connect({"brokers": place.brokers}, place.lake)
    work = PipelineRun(spark, pipeline)
    work.start(once=True)
    work.watch(lambda progress: None)


def rows_of(place: Place, table: str) -> list[int]:
    """The rows of a table, out of its files: Spark is not asked."""
    try:
        found = files_of(access_from(place.lake), table_url(f"{place.target}/{table}"))
    except NotFound:
        return []
    root = Path(found.place.store.removeprefix("file://"))
    return sorted(n for each in found.files for n in pq.read_table(root / key_of(found.place, each))["n"].to_pylist())
