"""Write, audit, publish: a batch lands on a branch of its own, is checked there, and is merged only if it passes.

Each step may be repeated after a crash: the branch's register takes a batch once, checks read the committed rows, and a
second merge changes nothing. A batch which fails is kept under `<branch>-failed-<batch>`, and the branch goes back to
before it, so that the same batch can come again once the code is mended.
"""

from contextlib import suppress
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession

from penstock.kernel.errors import AlreadyExists, Fenced, NoChanges, NotFound
from penstock.lake.client.lake import LakeUrl
from penstock.lake.records.sink_batch import BatchOutcome, SinkBody
from penstock.spark.pipelines.ends import Check, LakeSink
from penstock.spark.pipelines.pipeline import Flow
from penstock.spark.pipelines.staging import JobBatch
from penstock.spark.pipelines.together import TableWrite, commit_tagged
from penstock.spark.shared.checkpoint import Plan, plan_of
from penstock.spark.tables.lake_access import LakeAccess, access_from, table_url
from penstock.spark.tables.table import CHANGE, read_changes

__all__ = ["AuditFailed", "AuditPublisher", "audit_branch", "failing"]

ROWS_SHOWN = 3


class AuditFailed(Exception):
    """Rows which do not keep a check, with some of them."""


class AuditPublisher:
    """Writes the batches of one flow into tables, by way of a branch of its own if there are checks."""

    def __init__(self, flow: Flow, checkpoint: str) -> None:
        self._ends = tuple(each for each in flow.sinks.values() if isinstance(each, LakeSink))
        first = self._ends[0]
        self.flow = flow
        self.rows: dict[int, int] = {}  # of the newest batch
        self._checkpoint = checkpoint
        self._options = dict(first.options)
        self._access: LakeAccess = access_from(self._options)
        self._main = table_url(first.url)
        self.branch = audit_branch(flow) if flow.is_audited else self._main.ref

    def prepare(self) -> None:
        """Make the branch of the audit from the one it publishes to."""
        if self.branch == self._main.ref:
            return
        body = {"name": self.branch, "source": self._main.ref}
        with suppress(AlreadyExists):
            self._access.ask("POST", f"{self._main.api}/branches", body)

    def publish(self, rows: DataFrame, batch: int, job: JobBatch | None = None) -> None:
        """Commit one batch of tagged rows; with checks, audit and merge it."""
        plan = plan_of(self._checkpoint, batch, rows.sparkSession) if job is None else job.plan
        writes = [TableWrite(self._url(each), each.mode == "complete", each.partition_by) for each in self._ends]
        done = commit_tagged(
            rows,
            writes,
            sink=self.flow.sink,
            batch=batch,
            checkpoint=self._checkpoint,
            pipeline=self.flow.pipeline,
            options=self._options,
            job=job,
        )
        if self.flow.is_audited:
            self._audit(rows.sparkSession, done.batch, plan)
            self._merge(done.batch)
        self.rows = {batch: done.rows}

    def _url(self, end: LakeSink) -> str:
        target = table_url(end.url)
        return f"lake://{target.repository}@{self.branch}/{target.path}"

    # audit

    def _audit(self, spark: SparkSession, outcome: BatchOutcome, plan: Plan) -> None:
        for end in self._ends:
            target = table_url(self._url(end))
            at = f"lake://{target.repository}@{outcome.commit}/{target.path}"
            try:
                # All unpublished rows: an earlier driver may have died between a commit and its audit.
                rows = read_changes(spark, at, since=self._main.ref, options=self._options)
            except NotFound:
                continue  # an empty batch, before the table has any file
            added = rows.where(f"{CHANGE} = 'insert'").drop(CHANGE)
            for what, check in end.checks.items():
                problem = failing(added, what, check)
                if problem:
                    self._set_back(outcome, plan)
                    raise AuditFailed(f"{end.url}: {problem}")

    def _set_back(self, outcome: BatchOutcome, plan: Plan) -> None:
        """Keep the bad batch where people can look at it, and let it come again."""
        register = self.register()
        if register is None or register.commit != outcome.commit:
            at = "forgotten" if register is None else f"at batch {register.batch}"
            raise Fenced(f"another driver continued sink {self.flow.sink}, which is {at}")
        kept = f"{self.branch}-failed-{register.batch}"
        with suppress(AlreadyExists):  # it has failed before
            self._access.ask("POST", f"{self._main.api}/branches", {"name": kept, "source": outcome.commit})
        branch = LakeUrl(self._main.repository, self.branch)
        self._access.ask("PUT", f"{branch.branch_api}/hard_reset", ref=f"{outcome.commit}~1")
        before = SinkBody(self.flow.sink, register.query, register.batch - 1, ends=plan.begins)
        self._access.ask("PUT", f"{branch.branch_api}/sinks", before)

    def register(self) -> SinkBody | None:
        """Return the sink's register, as the lake keeps it; None before the first batch."""
        branch = LakeUrl(self._main.repository, self.branch)
        try:
            found = self._access.ask("GET", f"{branch.branch_api}/sinks")["results"]
        except NotFound:
            return None  # `prepare` has not made the branch yet
        return next((SinkBody(**each) for each in found if each["sink"] == self.flow.sink), None)

    def _merge(self, outcome: BatchOutcome) -> None:
        main = self._main
        api = f"{main.api}/refs/{quote(outcome.commit, safe='')}/merge/{quote(main.ref, safe='')}"
        metadata = {"penstock.audit": "passed", "penstock.sink": self.flow.sink}
        body: dict[str, Any] = {"message": f"Publish {self.flow.sink}", "metadata": metadata}
        with suppress(NoChanges):  # published before, by a driver that died after it
            self._access.ask("POST", api, body)


def audit_branch(flow: Flow) -> str:
    """Return the branch where batches of an audited flow land first."""
    return f"{flow.pipeline}-{flow.name}-audit"


def failing(rows: DataFrame, what: str, check: Check) -> str:
    """Return the failure of a check, with some of the rows; empty if it passes."""
    if callable(check):
        return "" if check(rows) else f"check {what!r} said no"
    bad = rows.where(f"NOT coalesce(({check}), false)")
    sample = [row.asDict() for row in bad.limit(ROWS_SHOWN).collect()]
    return f"check {what!r} ({check}) fails for {bad.count():,} rows, like {sample}" if sample else ""
