"""The batches of a flow whose sinks are journals: all of a batch is acknowledged by one record, or none of it."""

from collections.abc import Iterator

from pyspark.sql import DataFrame

from penstock.kernel.errors import InvalidArgument
from penstock.lake.records.sink_batch import SinkBody
from penstock.spark.journals.journal_sink import Committer, joined
from penstock.spark.journals.transaction_rule import Record
from penstock.spark.options import SinkOptions, sink_options
from penstock.spark.pipelines.ends import JournalEnd
from penstock.spark.pipelines.pipeline import Flow
from penstock.spark.pipelines.staging import JobBatch, batch_of, stage_journals
from penstock.spark.shared.checkpoint import plan_of

__all__ = ["TransactionPublisher"]


class TransactionPublisher:
    """Writes the batches of one flow into journals, by one record of their journal of transactions."""

    def __init__(self, flow: Flow, checkpoint: str) -> None:
        self.flow = flow
        self.rows: dict[int, int] = {}  # of the newest batch
        self._checkpoint = checkpoint
        self._sinks = tuple(_options_of(flow, checkpoint))
        self._committer = Committer(self._sinks[0])
        if len({(each.connection, each.transactions) for each in self._sinks}) != 1:
            raise InvalidArgument(f"{flow.sink}: journals committed together have the same brokers and transactions")

    def prepare(self) -> None:
        """Make nothing: the journal of transactions is made by the first commit."""

    def publish(self, rows: DataFrame, batch: int, job: JobBatch | None = None) -> None:
        """Commit one batch of tagged rows."""
        written, whose = stage_journals(rows, self._sinks)
        if job is None:
            query, number = batch_of(whose, rows.sparkSession, batch, self._checkpoint)
            job = JobBatch(query, number, plan_of(self._checkpoint, number, rows.sparkSession))
        run = next((each.run for each in written), "")
        count = sum(each.rows for each in written)
        plan = job.plan
        record = Record(
            self.flow.sink, job.query, job.number, joined(written), run, plan.guard, count, plan.begins, plan.ends
        )
        self._committer.commit(record)
        self.rows = {batch: count}

    def register(self) -> SinkBody | None:
        """Return the sink's last batch, as the journal of transactions has it; None before the first batch."""
        last = self._committer.last(self.flow.sink)
        return None if last is None else SinkBody(self.flow.sink, last.query, last.batch, last.guard, ends=last.ends)


def _options_of(flow: Flow, checkpoint: str) -> Iterator[SinkOptions]:
    for end in flow.sinks.values():
        assert isinstance(end, JournalEnd)
        given = {**end.options, "path": end.name, "sink": flow.sink, "checkpointLocation": checkpoint}
        yield sink_options(given, is_stream=True)
