"""Compaction: what journals have gained since the last time, as Parquet in a table of the lake, by one batch job.

    compact(spark, journal("shop/orders", schema="sku string, amount decimal(9,2)"), lake("lake://shop@main/history"))

Each run reads the committed messages after the last one's end and commits them as one batch of a sink of its own,
`compact/<journals>`; that commit, and nothing else, records where the run ended (`penstock.offsets`). So a run which
dies has done nothing, or everything; of two at the same time one is refused; a message which was pending at the end of
one run belongs to the run in which it is committed. A journal's ranges are read side by side, unlike by a stream.
"""

import hashlib
from typing import Any, Final

import msgspec
from pyspark.sql import SparkSession

from penstock.kernel.errors import InvalidArgument, PreconditionFailed
from penstock.lake.client.lake import LakeUrl
from penstock.spark.pipelines.ends import JournalEnd, LakeSink
from penstock.spark.pipelines.running.flow_start import heads_of
from penstock.spark.pipelines.staging import TableStage, stage_tables
from penstock.spark.pipelines.tagged import tagged
from penstock.spark.shared.checkpoint import Plan
from penstock.spark.tables.lake_access import LakeAccess, access_from, table_url
from penstock.spark.tables.lake_commit import Batch, commit_batch
from penstock.spark.tables.lake_format import check_types
from penstock.spark.tables.staging_place import place_of
from penstock.spark.tables.table_columns import plan_table

__all__ = ["Compacted", "compact"]

OFFSETS: Final = "penstock.offsets"
Offsets = dict[str, int]


class Compacted(msgspec.Struct, frozen=True):
    """What a run did: how many rows, up to where in each journal, and its commit. Without rows there is none."""

    rows: int
    ends: Offsets
    commit: str = ""


def compact(spark: SparkSession, source: JournalEnd, sink: LakeSink) -> Compacted:
    """Everything which was committed since the last run, in one commit of the table's branch."""
    if sink.mode != "append" or sink.checks:
        raise InvalidArgument("a compaction appends to its table, and has no checks")
    access, target = access_from(sink.options), table_url(sink.url)
    name = f"compact/{source.name}"
    number, begins = _last(access, target, name)
    ends = {journal: max(end, begins.get(journal, 0)) for journal, end in heads_of(source).items()}
    if ends == begins:
        return Compacted(0, ends)
    frame = source.read(spark, startingOffsets=_json(begins), endingOffsets=_json(ends))
    check_types(frame.schema)
    place = place_of(access, target)
    columns = plan_table(access, target, frame.schema)
    (files,) = stage_tables(tagged([frame]), place, [TableStage(columns, sink.partition_by)]).files
    if not files:
        return Compacted(0, begins)  # only pending messages: the next run looks again
    said = _json(ends)
    plan = Plan(hashlib.sha256(said.encode()).hexdigest(), said)
    table = columns.table(place, files)
    assert table is not None
    try:
        done = commit_batch(access, target, place, Batch(name, name, number + 1, plan), [table])
    except PreconditionFailed as error:
        raise PreconditionFailed(
            f"another compaction of {source.name} into {sink.url} has committed meanwhile: {error.message}",
            next_step="run it again: it continues after the other one",
        ) from None
    return Compacted(sum(each.rows for each in files), ends, done.commit)


def _last(access: LakeAccess, target: LakeUrl, name: str) -> tuple[int, Offsets]:
    """The number of the last batch, and where it ended; -1 and nothing before the first."""
    found = access.ask("GET", f"{target.branch_api}/sinks")["results"]
    register: Any = next((each for each in found if each["sink"] == name), None)
    if register is None:
        return -1, {}
    commit = access.ask("GET", f"/repositories/{target.repository}/commits/{register['commit']}")
    return register["batch"], msgspec.json.decode(commit["metadata"][OFFSETS], type=Offsets)


def _json(offsets: Offsets) -> str:
    return msgspec.json.encode(dict(sorted(offsets.items()))).decode()
