"""Running a pipeline: a query for each flow, watched until all are done or one fails.

A failure names pipeline, flow and batch, the rows it was about, and what to do: a traceback of Spark's alone tells a
reader of user code very little.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.kernel.errors import InvalidArgument, PenstockError, PreconditionFailed, Refused
from penstock.spark.pipelines.database_publisher import DatabasePublisher
from penstock.spark.pipelines.ends import JournalEnd, LakeSink, PostgresSink
from penstock.spark.pipelines.flow_frames import check_frames, output_mode_of
from penstock.spark.pipelines.journal_publisher import TransactionPublisher
from penstock.spark.pipelines.pipeline import Flow, Pipeline
from penstock.spark.pipelines.pipeline_audit import AuditPublisher
from penstock.spark.pipelines.running.flow_start import FlowStart, heads_of, only_journal, start_of
from penstock.spark.pipelines.running.settings import RunSettings, limited_flow
from penstock.spark.pipelines.running.until_now import present_ends, stop_when_read
from penstock.spark.pipelines.tagged import tagged
from penstock.spark.pipelines.user_code import cause_of
from penstock.spark.shared.checkpoint import find_state, offset_of
from penstock.spark.shared.checkpoint_files import check_opens
from penstock.spark.shared.offsets import StreamOffset
from penstock.spark.versions import HAS_READ_LIMITS, progress_offset

__all__ = ["FlowProgress", "PipelineRun", "has_plan", "lag_of", "publisher_of"]

POLL_S: Final = 0.25
ROWS_SHOWN: Final = 3
SOURCES_S: Final = 60.0
SLOW_START: Final = "Python worker failed to connect back"  # Spark's words
SLOW_STARTS_MAX: Final = 30  # of one flow
TAKEN: Final = ("PreconditionFailed:", "Fenced:")  # a sink that another query has


AnyPublisher = AuditPublisher | TransactionPublisher | DatabasePublisher


class FlowProgress(msgspec.Struct, frozen=True):
    """How a flow is doing."""

    flow: str
    batch: int
    rows: int  # of the newest batch
    rows_per_s: float
    lag_bytes: int | None  # bytes of its journals that it has not read; None if unknown
    is_running: bool


class PipelineRun:
    """The queries of one run."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, flows: tuple[str, ...] = ()) -> None:
        self.spark = spark
        self.pipeline = pipeline
        self.flows = pipeline.chosen(flows)
        self.queries: dict[str, StreamingQuery] = {}
        self.notes: list[str] = []  # where flows begin that have no checkpoint
        self._publishers: dict[str, AnyPublisher] = {}
        self._settings = RunSettings()
        self._once = False
        self._slow_starts: dict[str, int] = {}

    def start(self, *, once: bool = False, settings: RunSettings | None = None) -> None:
        """Start every flow: until everything is read (`once`), or for good."""
        self._settings = settings or RunSettings()
        self._once = once
        self.flows = [limited_flow(flow, self._settings.max_bytes) for flow in self.flows]
        for flow in self.flows:
            self.queries[flow.name] = self._start(flow)
            self._wait_for_sources(self.queries[flow.name])

    def _wait_for_sources(self, query: StreamingQuery) -> None:
        """Start one source after the other: Spark gives the process of a source 10 s to start, on a busy
        machine too.
        """
        end = time.monotonic() + SOURCES_S
        while query.isActive and query.status["message"] == "Initializing sources" and time.monotonic() < end:
            time.sleep(POLL_S)

    def _start(self, flow: Flow) -> StreamingQuery:
        once, checkpoint = self._once, self.pipeline.checkpoint_of(flow)
        publisher = publisher_of(flow, checkpoint)
        check_opens(self.spark, checkpoint)
        try:
            is_known = has_plan(checkpoint, self.spark)
            start = FlowStart() if is_known else start_of(self.spark, flow, publisher.register())
            ends = present_ends(flow) if once else {}
            frames = flow.stream(self.spark, _json(start.offsets) if start.offsets else "", ends)
        except PySparkException as error:
            raise Refused(f"{flow.sink} could not be planned: {cause_of(str(error), flow.code)}") from error
        if start.note:
            self.notes.append(start.note)
        check_frames(flow, frames)
        publisher.prepare()
        self._publishers[flow.name] = publisher
        writer: Any = tagged(list(frames.values())).writeStream.outputMode(output_mode_of(flow, frames))
        writer = writer.foreachBatch(publisher.publish)
        writer = writer.queryName(flow.sink).option("checkpointLocation", checkpoint)
        pause = 0.0 if once else self._settings.interval_of(flow)
        processing = f"{round(1000 * pause)} milliseconds"
        writer = writer.trigger(availableNow=True) if once and not ends else writer.trigger(processingTime=processing)
        while True:
            try:
                query: StreamingQuery = writer.start()
                if ends:
                    stop_when_read(query)
                return query
            except PySparkException as error:  # of Spark Connect, which starts a process for `foreachBatch` first
                if not self._was_slow(flow, str(error)):
                    raise Refused(f"{flow.sink} could not be started: {cause_of(str(error), flow.code)}") from error

    # watching

    def watch(self, tell: Callable[[list[FlowProgress]], None], timeout_s: float | None = None) -> bool:
        """Wait until all flows are done, and return True; False after the time.

        A failing flow ends them all, with an error that says what happened.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        is_over = True
        try:
            while True:
                tell(list(self.progress()))
                for flow in self.flows:
                    failure = self.queries[flow.name].exception()
                    if failure is not None and not self._starts_again(flow, failure):
                        raise self._failure(flow, failure)
                # A restarted query may have failed again by now: then it is not done, but looked at next.
                if not any(each.isActive or each.exception() is not None for each in self.queries.values()):
                    return True
                if end is not None and time.monotonic() >= end:
                    is_over = False
                    return False
                time.sleep(POLL_S)
        finally:
            if is_over:
                self.stop()

    def _starts_again(self, flow: Flow, failure: StreamingQueryException) -> bool:
        """A source whose process was too slow to start has done nothing yet: it is started again."""
        if not self._was_slow(flow, str(failure)):
            return False
        self.queries[flow.name] = self._start(flow)
        self._wait_for_sources(self.queries[flow.name])
        return True

    def _was_slow(self, flow: Flow, failure: str) -> bool:
        self._slow_starts[flow.name] = self._slow_starts.get(flow.name, 0) + 1
        return SLOW_START in failure and self._slow_starts[flow.name] <= SLOW_STARTS_MAX

    def stop(self) -> None:
        for query in self.queries.values():
            if query.isActive:
                query.stop()

    def progress(self) -> Iterator[FlowProgress]:
        for flow in self.flows:
            query = self.queries[flow.name]
            last = query.lastProgress
            if last is None:
                yield FlowProgress(flow.name, -1, 0, 0.0, None, query.isActive)
                continue
            yield FlowProgress(
                flow.name,
                last["batchId"],
                self._rows(flow, last),
                last["processedRowsPerSecond"] or 0.0,
                self._lag(flow, last),
                query.isActive,
            )

    def _lag(self, flow: Flow, progress: Any) -> int | None:
        """Return how much of its journals a flow has not read. Before 4.2 Spark knows only where batches end."""
        sources, source = progress["sources"], only_journal(flow)
        if HAS_READ_LIMITS:
            return lag_of(sources)
        if source is None:
            return None
        try:
            heads = {"to": heads_of(source)}
        except PenstockError:
            return None  # brokers are away for a moment
        return lag_of([{"endOffset": each.get("endOffset"), "latestOffset": heads} for each in sources[:1]])

    def _rows(self, flow: Flow, progress: Any) -> int:
        """Return the rows that a batch committed. Spark counts a source once for each sink that reads it."""
        publisher = self._publishers.get(flow.name)
        committed = publisher.rows.get(progress["batchId"]) if publisher is not None else None
        if committed is not None:
            return committed
        read = sum(each["numInputRows"] or 0 for each in progress["sources"])  # Spark Connect tells no sum of them
        return read // len(flow.sinks)

    # failures

    def _failure(self, flow: Flow, failure: StreamingQueryException) -> PenstockError:
        checkpoint = self.pipeline.checkpoint_of(flow)
        state = find_state(checkpoint, self.spark)
        batch = state.planned if state is not None else 0
        sample = self._sample(flow, checkpoint, batch)
        shown = f"\nrows of that batch: {sample}" if sample else ""
        cause = cause_of(str(failure), flow.code)
        is_taken = cause.what.startswith(TAKEN)
        # An error in the user's code is the user's to correct.
        kind = PreconditionFailed if is_taken else InvalidArgument if cause.where else Refused
        return kind(
            f"pipeline {flow.pipeline}, flow {flow.name}, batch {batch} failed: {cause}{shown}",
            next_step=f"correct the flow and run it again: it continues with batch {batch}",
            batch=batch,
            flow=flow.name,
        )

    def _sample(self, flow: Flow, checkpoint: str, batch: int) -> list[dict[str, Any]]:
        """Some rows which the batch read; none if they cannot be had: the failure itself is what matters."""
        source = next(iter(flow.streams.values()))
        if not isinstance(source, JournalEnd) or len(flow.streams) != 1:
            return []
        try:
            end = StreamOffset.from_dict(offset_of(checkpoint, batch, self.spark))
            start = StreamOffset.from_dict(offset_of(checkpoint, batch - 1, self.spark))
            ranges = end.ranges(start)
            frame = source.read(
                self.spark,
                startingOffsets=_json({name: begin for name, (begin, _) in ranges.items()}),
                endingOffsets=_json({name: stop for name, (_, stop) in ranges.items()}),
            )
            return [row.asDict() for row in frame.limit(ROWS_SHOWN).collect()]
        except Exception:
            return []


def publisher_of(flow: Flow, checkpoint: str) -> AnyPublisher:
    """Return the committer of a flow's batches: into tables of the lake or of a database, or into journals."""
    match next(iter(flow.sinks.values())):
        case LakeSink():
            return AuditPublisher(flow, checkpoint)
        case PostgresSink():
            return DatabasePublisher(flow, checkpoint)
        case JournalEnd():
            return TransactionPublisher(flow, checkpoint)


def has_plan(checkpoint: str, spark: SparkSession) -> bool:
    """Return True if a checkpoint has a planned batch: then it says how far the flow is."""
    state = find_state(checkpoint, spark)
    return state is not None and state.planned >= 0


def lag_of(sources: list[dict[str, Any]]) -> int | None:
    """Return how many bytes of the journals were not read yet, by the query's progress."""
    lag = 0
    for each in sources:
        read, there = (_to(each.get(name)) for name in ("endOffset", "latestOffset"))
        if read is None or there is None:
            return None
        lag += sum(max(0, end - read.get(journal, 0)) for journal, end in there.items())
    return lag


def _to(offset: Any) -> dict[str, int] | None:
    found = progress_offset(offset)
    to = found.get("to") if isinstance(found, dict) else None
    return to if isinstance(to, dict) else None


def _json(value: Mapping[str, int]) -> str:
    return msgspec.json.encode(dict(value)).decode()
