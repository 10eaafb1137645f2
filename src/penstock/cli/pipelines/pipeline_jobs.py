"""`penstock pipeline compact|import|garbage`: big jobs on Spark, each one run from begin to end."""

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from penstock.cli.lake.lake_targets import AtLake
from penstock.cli.noun import InSession
from penstock.cli.pipelines.pipeline_targets import AtBrokers, Master, Remote, journal_options, lake_options, spark_for
from penstock.kernel.errors import InvalidArgument
from penstock.server.output import make_table
from penstock.server.targets import CLUSTER_FOLDER, AtFolder, addresses_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["compact", "garbage", "import_listing"]

FORMATS: Final = ("parquet", "json", "csv")
SHOWN: Final = 10  # of the largest objects


def compact(
    journal: Annotated[str, Parameter(help="The journal, or a prefix which ends in /.", metavar="JOURNAL")],
    url: Annotated[str, Parameter(help="The table, lake://REPOSITORY@BRANCH/TABLE.", metavar="URL")],
    /,
    *,
    schema: Annotated[str, Parameter(help="Columns and their types. Default: as messages look.", metavar="DDL")] = "",
    partition_by: Annotated[tuple[str, ...], Parameter(help="A column to make folders by.", metavar="COLUMN")] = (),
    master: Master = "",
    remote: Remote = "",
    broker: AtBrokers = (),
    cluster: AtFolder = CLUSTER_FOLDER,
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Write what a journal has gained since the last time as Parquet into a table: one batch job, one commit."""
    session.start_logs(quiet=True)
    from penstock.spark.pipelines.compaction import compact as work
    from penstock.spark.pipelines.ends import JournalEnd, LakeSink

    addresses = addresses_of(session, broker, cluster, "broker", "--broker")
    source = JournalEnd(journal, schema, journal_options(session, addresses))
    sink = LakeSink(url, partition_by=partition_by, options=lake_options(session, lake))
    with spark_for(session, "compact", master=master, remote=remote) as spark:
        done = work(spark, source, sink)
    rows = [[name, f"{end:,}"] for name, end in done.ends.items()]
    told = f"{done.rows:,} rows in commit {done.commit[:12]}" if done.commit else "nothing new is committed there"
    data = {"rows": done.rows, "ends": done.ends, "commit": done.commit}
    session.emit(data, make_table(["journal", "compacted up to"], rows, right=["compacted up to"]), told)


def import_listing(
    listing: Annotated[
        str,
        Parameter(
            help="Parquet, JSON lines or CSV with a header: path, address, size, etag, mtime_ns.", metavar="FILE"
        ),
    ],
    url: Annotated[str, Parameter(help="Where to, lake://REPOSITORY@BRANCH/PATH/.", metavar="URL")],
    /,
    *,
    format: Annotated[str, Parameter(help="parquet, json or csv. Default: what the listing's name ends with.")] = "",
    message: Annotated[str, Parameter(help="The commit's message.", name=["--message", "-m"])] = "",
    tasks: Annotated[int, Parameter(help="Tasks to build ranges in. Default: one for a million entries.")] = 0,
    master: Master = "",
    remote: Remote = "",
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Put listed objects in place of whatever is below a path, by one commit. No object is copied or read."""
    kind = format or PurePosixPath(listing).suffix.removeprefix(".")
    if kind not in FORMATS:
        raise InvalidArgument(f"{listing}: say with --format whether it is {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if not 0 <= tasks <= 100_000:
        raise InvalidArgument(f"--tasks {tasks}: expected 1 to 100000")
    session.start_logs(quiet=True)
    from penstock.spark.tables.trees.tree_import import import_entries

    with spark_for(session, "import", master=master, remote=remote) as spark:
        entries = _listing(spark, listing, kind)
        done = import_entries(spark, url, entries, message=message, tasks=tasks, options=lake_options(session, lake))
    data = {"entries": done.entries, "commit": done.commit, "tree": done.tree}
    session.emit(data, f"{done.entries:,} objects in commit {done.commit[:12]}")


def _listing(spark: "SparkSession", listing: str, kind: str) -> "DataFrame":
    """The listing, as the import wants it."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        found = spark.read.option("header", "true").format(kind).load(listing)
    except PySparkException as error:
        raise InvalidArgument(f"{listing} cannot be read as {kind}: {error.getCondition() or error}") from None
    except Py4JJavaError as error:  # what a file's format says itself
        why = str(error.java_exception.getMessage()).partition("\n")[0]
        raise InvalidArgument(f"{listing} cannot be read as {kind}: {why}") from None
    types = {"path": "string", "address": "string", "size": "long", "etag": "string", "mtime_ns": "long"}
    missing = [name for name in types if name not in found.columns]
    if missing:
        raise InvalidArgument(
            f"{listing} has no column {', '.join(missing)}", next_step="penstock pipeline import --help"
        )
    for name, type_ in types.items():
        found = found.withColumn(name, found[name].cast(type_))
    return found


def garbage(
    url: Annotated[str, Parameter(help="The repository, lake://REPOSITORY@BRANCH.", metavar="URL")],
    /,
    *,
    save: Annotated[str, Parameter(help="Write all of their keys there, as Parquet.", metavar="FOLDER")] = "",
    master: Master = "",
    remote: Remote = "",
    lake: AtLake = None,
    session: InSession,
) -> None:
    """Find objects which nothing refers to, in repositories of many millions. Nothing is deleted: `lake gc` does that.

    The answer is that of `penstock lake gc` without --sweep.
    """
    session.start_logs(quiet=True)
    from penstock.spark.tables.trees.tree_garbage import find_garbage

    with spark_for(session, "garbage", master=master, remote=remote) as spark:
        found = find_garbage(spark, url, options=lake_options(session, lake)).cache()
        if save:
            found.write.parquet(save)
        ((count, size),) = found.selectExpr("count(*)", "coalesce(sum(size), 0)").collect()
        largest = [(row["key"], row["size"]) for row in found.orderBy("size", ascending=False).limit(SHOWN).collect()]
    data = {"objects": count, "bytes": size, "largest": [{"key": key, "size": size_} for key, size_ in largest]}
    table = make_table(["largest", "bytes"], [[key, f"{size_:,}"] for key, size_ in largest], right=["bytes"])
    session.emit(data, table, f"{count:,} objects, {size:,} B, which nothing refers to")
