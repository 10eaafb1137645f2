"""Writing into journals with Spark, exactly once: streams and batches. Design: spark.md, "Journal sink".

Tasks append under a producer of their own, drawn for each attempt: their messages are pending. The driver's commit
records the acknowledgements of the attempts which count in the transactions journal, in one append which only one
driver can do for a batch; then it publishes them. Attempts that lost, zombies and speculation leave nothing visible,
because their messages are never acknowledged.
"""

import contextlib
import secrets
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from penstock.journals.records.labels import LabelSelector, LabelSet
from penstock.journals.records.protocol import JournalInfo
from penstock.kernel.errors import InvalidArgument, NotFound, PenstockError, PreconditionFailed, Unavailable
from penstock.messages.uuid import producer_id
from penstock.spark.journals.ranges import shared_access
from penstock.spark.journals.transaction_rule import TXN, Record
from penstock.spark.journals.transactions import Transactions, append_surely
from penstock.spark.options import Connection, SinkOptions
from penstock.spark.shared.checkpoint import plan_of
from penstock.spark.shared.content import Access
from penstock.spark.shared.encoders import Encoder, Producer, acknowledgement, encoder_of, plain_schema
from penstock.spark.shared.schemas import framing_of
from penstock.spark.versions import BATCH_PROPERTY, JOB_PROPERTY, QUERY_PROPERTY, DataSourceStreamArrowWriter

__all__ = ["JournalStreamWriter", "JournalWriter", "SinkAttempt", "SinkWritten"]

TARGET: Final = "_journal"  # the column which names the journal of a row
APPEND_BYTES: Final = 4 << 20  # gathered before they are appended


@dataclass
class SinkWritten(WriterCommitMessage):
    """What one attempt of one task has pending."""

    query: str
    batch: int
    run: str
    rows: int
    intents: dict[str, bytes] = field(default_factory=dict)


class SinkAttempt:
    """One attempt of a task: rows to pending messages, in the order in which they came."""

    def __init__(self, access: Access, options: SinkOptions) -> None:
        self._access = access
        self._options = options
        self._producer = Producer(producer_id(secrets.randbits(48)), time.time_ns())
        self._encoders: dict[str, Encoder] = {}
        self._waiting: dict[str, list[bytes]] = {}
        self.rows = 0

    def write(self, batches: Iterator[Any]) -> dict[str, bytes]:
        """Append all, and wait for the append commits; return the acknowledgements, which are still unpublished."""
        for batch in batches:
            self.add(batch)
        return self.finish()

    def add(self, batch: Any) -> None:
        """Append the rows of a batch, now or when enough are gathered."""
        self.rows += batch.num_rows
        for journal, part in self._routed(batch):
            self._put(journal, part)

    def finish(self) -> dict[str, bytes]:
        """Append the rest, and return the acknowledgements."""
        for journal in list(self._waiting):
            self._flush(journal)
        return {
            journal: acknowledgement(encoder, self._producer) for journal, encoder in sorted(self._encoders.items())
        }

    def _routed(self, batch: Any) -> Iterator[tuple[str, Any]]:
        """The rows of each journal."""
        if TARGET not in batch.schema.names:
            if not self._options.journal:
                raise InvalidArgument(f"no option journal, and no column {TARGET} which says where each row goes")
            yield self._options.journal, batch
            return
        targets = batch.column(TARGET)
        rest = batch.drop_columns([TARGET])
        if targets.null_count:
            raise InvalidArgument(f"column {TARGET} is null in {targets.null_count} rows: where would they go?")
        for target in targets.unique().to_pylist():
            yield target, rest.filter(pa.compute.equal(targets, target))

    def _put(self, journal: str, batch: Any) -> None:
        if not batch.num_rows:
            return
        schema = plain_schema(batch.schema)
        if journal not in self._encoders:
            info = find_journal(self._access, journal)
            self._encoders[journal] = encoder_of(framing_of(info, self._options.framing), schema)
        plain = pa.Table.from_batches([batch]).cast(schema).to_batches()
        waiting = self._waiting.setdefault(journal, [])
        waiting += [self._encoders[journal].encode(each, self._producer) for each in plain]
        if sum(map(len, waiting)) >= APPEND_BYTES:
            self._flush(journal)

    def _flush(self, journal: str) -> None:
        frames = b"".join(self._waiting.pop(journal))
        self._access.run(append_surely(self._access.journals, journal, frames, self._options.connection.timeout_s))


class Committer:
    """The driver's side: records a batch, then publishes its acknowledgements."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def commit(self, wanted: Record) -> None:
        """Record a batch, and publish what counts. When it returns, readers see the batch."""
        recorded = self.record(wanted)
        self.publish(recorded)
        self.finish_others(recorded)

    def last(self, sink: str) -> Record | None:
        """Return the record of a sink's last batch."""
        access = shared_access(self._options.connection)
        return access.run(self._transactions({}).last(sink))  # type: ignore[no-any-return]

    def _transactions(self, intents: dict[str, bytes]) -> Transactions:
        access = shared_access(self._options.connection)
        targets = sorted(intents) or [self._options.journal]
        replication = find_journal(access, targets[0]).spec.replication if targets[0] else 1
        options = self._options
        return Transactions(access.journals, options.transactions, options.connection.timeout_s, replication)

    def record(self, wanted: Record) -> Record:
        """The commit point. Returns the record that counts: this one, or an earlier one of the same batch."""
        transactions = self._transactions(wanted.intents)
        access = shared_access(self._options.connection)
        if wanted.sink:
            return access.run(transactions.commit(wanted))  # type: ignore[no-any-return]
        access.run(transactions.record(wanted))
        return wanted

    def publish(self, record: Record) -> None:
        access = shared_access(self._options.connection)
        access.run(self._transactions(record.intents).publish(record))

    def finish_others(self, record: Record) -> None:
        """Once in each process: publish what drivers which never came back have left recorded. See decision 601."""
        journal = (self._options.connection, self._options.transactions)
        if journal in _finished:
            return
        _finished.add(journal)
        # Our own batch is committed and visible: another sink's problem is for the next batch to try again.
        with contextlib.suppress(PenstockError, TimeoutError):
            shared_access(self._options.connection).run(self._transactions(record.intents).finish())


_finished: set[tuple[Connection, str]] = set()  # journals of transactions which this process has looked through


class JournalStreamWriter(DataSourceStreamArrowWriter):
    """The sink of a stream. Spark makes one for the tasks of each batch, and another for its commit."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> SinkWritten:
        """Runs in tasks."""
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY_PROPERTY) if context is not None else None
        batch = context.getLocalProperty(BATCH_PROPERTY) if context is not None else None
        if context is None or query is None or batch is None:
            names = f"{QUERY_PROPERTY}, {BATCH_PROPERTY}"
            raise Unavailable(f"Spark did not say which query and batch this task is of ({names})")
        attempt = SinkAttempt(shared_access(self.options.connection), self.options)
        intents = attempt.write(iterator)
        return SinkWritten(query, int(batch), context.getLocalProperty(JOB_PROPERTY) or "", attempt.rows, intents)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Runs on the driver. When it returns, the batch is committed and visible; if it fails, the next run
        decides.
        """
        self.committer().commit(self.to_record(messages, batchId))

    def committer(self) -> Committer:
        return Committer(self.options)

    def to_record(self, messages: list[WriterCommitMessage | None], batch: int) -> Record:
        found = [each for each in messages if isinstance(each, SinkWritten)]
        queries = {each.query for each in found}
        if not found or len(found) != len(messages) or len(queries) != 1 or {each.batch for each in found} != {batch}:
            raise PreconditionFailed(f"the messages of tasks do not fit batch {batch}: {messages!r}"[:500])
        (query,) = queries
        plan = plan_of(self.options.checkpoint, batch)
        sink, rows = self.options.sink or query, sum(each.rows for each in found)
        return Record(
            sink, query, batch, joined(found), found[0].run, plan.guard, rows, begins=plan.begins, ends=plan.ends
        )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: pending messages stay pending. It may even be that the commit has taken effect."""


class JournalWriter(DataSourceArrowWriter):
    """The sink of a batch write: one transaction, with a name of the user's or a drawn one."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self._id = str(uuid.uuid4())

    def write(self, iterator: Iterator[Any]) -> SinkWritten:
        """Runs in tasks."""
        attempt = SinkAttempt(shared_access(self.options.connection), self.options)
        intents = attempt.write(iterator)
        return SinkWritten(self._id, 0, "", attempt.rows, intents)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Runs on the driver."""
        found = [each for each in messages if isinstance(each, SinkWritten)]
        if len(found) != len(messages):
            raise PreconditionFailed("a task has left no message: nothing is committed")
        query = TXN if self.options.txn else self._id
        rows = sum(each.rows for each in found)
        Committer(self.options).commit(Record(self.options.txn, query, 0, joined(found), rows=rows))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: pending messages stay pending."""


def find_journal(access: Access, name: str) -> JournalInfo:
    selector = LabelSelector(LabelSet.of({"name": name}))
    found: list[JournalInfo] = access.ask(lambda: access.journals.list(selector))
    if not found:
        raise NotFound(f"there is no journal {name!r}", next_step="penstock journals list")
    return found[0]


def joined(messages: list[SinkWritten]) -> dict[str, bytes]:
    """The acknowledgements of all tasks, by journal."""
    found: dict[str, bytes] = {}
    for message in messages:
        for journal, frames in message.intents.items():
            found[journal] = found.get(journal, b"") + frames
    return dict(sorted(found.items()))
