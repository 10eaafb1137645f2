"""The batches of a flow whose sinks are journals: all of a batch is acknowledged by one record, or none of it."""

from collections.abc import Iterator

from pyspark.sql import DataFrame

from penstock.kernel.errors import InvalidArgument
from penstock.spark.journals.journal_sink import JournalStreamWriter, Written
from penstock.spark.options import SinkOptions, sink_options
from penstock.spark.pipelines.ends import Journal
from penstock.spark.pipelines.pipeline import Flow
from penstock.spark.pipelines.staging import batch_of, stage_journals

__all__ = ["TransactionPublisher"]


class TransactionPublisher:
    """Writes the batches of one flow into journals, by one record of their journal of transactions."""

    def __init__(self, flow: Flow, checkpoint: str) -> None:
        self.flow = flow
        self.rows: dict[int, int] = {}  # of the newest batch
        self._checkpoint = checkpoint
        self._sinks = tuple(_options_of(flow, checkpoint))
        if len({(each.connection, each.transactions) for each in self._sinks}) != 1:
            raise InvalidArgument(f"{flow.sink}: journals committed together have the same brokers and transactions")

    def prepare(self) -> None:
        """Make nothing: the journal of transactions is made by the first commit."""

    def publish(self, rows: DataFrame, batch: int) -> None:
        """Commit one batch of tagged rows."""
        written, whose = stage_journals(rows, self._sinks)
        query, number = batch_of(whose, rows.sparkSession, batch, self._checkpoint)
        run = next((each.run for each in written), "")
        messages = [Written(query, number, run, each.rows, each.intents) for each in written]
        JournalStreamWriter(self._sinks[0]).commit([Written(query, number, run, 0), *messages], number)
        self.rows = {batch: sum(each.rows for each in written)}


def _options_of(flow: Flow, checkpoint: str) -> Iterator[SinkOptions]:
    for end in flow.sinks.values():
        assert isinstance(end, Journal)
        given = {**end.options, "path": end.name, "sink": flow.sink, "checkpointLocation": checkpoint}
        yield sink_options(given, is_stream=True)
