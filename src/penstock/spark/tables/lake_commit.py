"""The commit of a sink's batch: the list of its files into the store, then one request. Design: spark.md "Lake sink".

Runs on the driver. Whatever became of an earlier try, asking again is harmless: the sink's register decides.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from penstock.kernel.errors import PenstockError, PreconditionFailed
from penstock.lake.client.lake import LakeUrl
from penstock.lake.records.sink_batch import (
    BatchBody,
    BatchOutcome,
    BatchTable,
    encode_list,
)
from penstock.spark.shared.checkpoint import Plan
from penstock.spark.tables.lake_access import LakeAccess, told
from penstock.spark.tables.staging_place import StagingPlace

__all__ = ["Batch", "commit_batch"]

METADATA: Final = "penstock."


class Batch(msgspec.Struct, frozen=True):
    """Which batch of which query it is, for which sink; a job which is no query has an id of its own as query."""

    query: str
    sink: str = ""
    number: int = 0
    plan: Plan = Plan()
    pipeline: str = ""
    message: str = ""
    metadata: Mapping[str, str] = {}


def commit_batch(
    access: LakeAccess, target: LakeUrl, place: StagingPlace, batch: Batch, tables: Iterable[BatchTable]
) -> BatchOutcome:
    """Commit the files of all tasks, once."""
    listed = tuple(tables)
    id_, data = encode_list(listed)
    place.put_list(id_, data)
    rows = sum(each.rows for table in listed for each in table.files)
    body = BatchBody(
        id_,
        batch.query,
        batch.sink,
        batch.number,
        batch.plan.guard,
        batch.message or _message(batch, rows),
        _metadata(batch, rows),
        batch.plan.begins,
        batch.plan.ends,
    )
    try:
        answer = access.ask("POST", f"{target.branch_api}/sinks/batches", msgspec.to_builtins(body))
    except PreconditionFailed as error:
        branch = f"lake://{target.repository}@{target.ref}"
        adopt = f"penstock pipeline adopt {batch.sink} {branch} --forget, if this query is the right one"
        raise PreconditionFailed(told(PreconditionFailed(error.message, next_step=adopt)), next_step=adopt) from None
    except PenstockError as error:
        error.args = (told(error),)  # all that Spark shows of it
        raise
    return msgspec.convert(answer, BatchOutcome)


def _message(batch: Batch, rows: int) -> str:
    who = batch.pipeline or batch.sink
    what = f"batch {batch.number}: {rows:,} rows" if batch.sink else f"{rows:,} rows"
    return f"{who}, {what}" if who else what


def _metadata(batch: Batch, rows: int) -> dict[str, str]:
    named = {
        "pipeline": batch.pipeline,
        "sink": batch.sink,
        "query": batch.query,
        "batch": str(batch.number) if batch.sink else "",
        "offsets": batch.plan.offsets,
        "rows": str(rows),
    }
    return {METADATA + name: text for name, text in named.items() if text} | dict(batch.metadata)
