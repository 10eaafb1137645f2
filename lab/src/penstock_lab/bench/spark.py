"""How fast does Spark read journals, next to its own readers over the same bytes and rows?

One Spark, two cores, everything on this machine; every side makes the same aggregate over the same rows, of all their
columns, by hash: a sorting one would measure Spark's sort. Fragments are in a folder, as Spark's files are, and every
read of Penstock's is the first: the results of an earlier one (states of sequencing) are removed before the
measurement.

- JSON: a journal of transactions of four producers which overlap, and `spark.read.json` over a file of the very same
  bytes. Ours sequences (committed rows only), Spark's does not, and counts the acknowledgements as rows.
- Arrow: a journal of record batches, and `spark.read.parquet` over the same rows. Next to them a Python source of ready
  batches (`spark_floor.py`): no source written in Python can do without its time.
- Journals are read by `read_journal`, as columns, which the bars are about; and by the format `journal`, as rows.
- A stream from journal to journal, exactly once: rows a second, and how long a trigger takes.
- The same reads with one core and with two.
"""

import itertools
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import PenstockError
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.json_lines import JsonLines
from penstock.server.cluster.local import LocalCluster
from penstock.spark.journals.columnar import read_journal
from penstock_lab.bench.messages import SCHEMA, Transfer, _batches, _journal, _transfers
from penstock_lab.bench.report import Options, RowRecorder, interleave
from penstock_lab.bench.spark_floor import ReadyBatches
from penstock_lab.bench.spark_lake import lake_vs_parquet

__all__ = ["QUESTION", "run"]

QUESTION: Final = "How fast does Spark read and write journals, next to its own readers over the same rows?"

JSON, SPARK_JSON = "journal of JSON, committed", "spark.read.json"
ARROW, PARQUET = "journal of Arrow batches, committed", "spark.read.parquet"
JSON_ROWS, ARROW_ROWS = f"{JSON}, as rows", f"{ARROW}, as rows"
READY: Final = "a Python source of ready batches"
DDL: Final = "account string, amount double, kind string, number long"
APPEND_BYTES: Final = 4 << 20
FRAGMENT_BYTES: Final = 16 << 20
READY_S: Final = 60.0
WARM_RUNS: Final = 8  # until Java has compiled its code: a first run takes five times as long


def run(recorder: RowRecorder, options: Options) -> None:
    """Measure; the bars are those of issue 7."""
    with _folder() as folder, _broker(folder / "cluster") as brokers, _sparks(folder) as spark_of:
        spark = spark_of(2)
        data = _Data(folder, brokers, options)
        recorder.progress("publishing")
        data.write()
        two = _reads(recorder, options, data, spark)
        _stream(recorder, options, data, spark)
        lake_vs_parquet(recorder, options, spark, folder)
        recorder.progress("one core")
        alone = spark_of(1)  # which ends the one with two cores
        one = _measured({side: partial(data.rate, side, alone) for side in (JSON, ARROW)}, options)
        for side in (JSON, ARROW):
            recorder.row("read and aggregate", side, one[side], "rows/s", cores=1)
        curves = {side: [(1.0, one[side]), (2.0, two[side])] for side in (JSON, ARROW)}
        recorder.grows("rows by cores", "cores", "rows/s", curves)


def _reads(recorder: RowRecorder, options: Options, data: "_Data", spark: Any) -> dict[str, float]:
    recorder.progress("reading all sides")
    spark.dataSource.register(ReadyBatches)
    sides = (JSON, JSON_ROWS, SPARK_JSON, ARROW, ARROW_ROWS, READY, PARQUET)
    rates = _measured({side: partial(data.rate, side, spark) for side in sides}, options)
    for side in sides:
        recorder.row("read and aggregate", side, rates[side], "rows/s", cores=2)
    recorder.bar("json_vs_spark_json", rates[JSON] / rates[SPARK_JSON], at_least=3)
    recorder.bar("arrow_vs_parquet", rates[ARROW] / rates[PARQUET], at_least=0.8)
    return rates


def _measured(cases: Mapping[str, Callable[[], float]], options: Options) -> dict[str, float]:
    for case in [*cases.values()] * (1 if options.quick else WARM_RUNS):
        case()
    return interleave(cases, 1 if options.quick else options.repeats)


def _stream(recorder: RowRecorder, options: Options, data: "_Data", spark: Any) -> None:
    """Copy the JSON journal into another one."""
    recorder.progress("a stream, exactly once")
    data.create("bench/out")
    frame = spark.readStream.format("journal").option("brokers", data.address).schema(DDL)
    frame = frame.option("maxBytesPerTrigger", str(max(1 << 16, data.json_bytes // 12))).load("bench/json")
    sink = frame.writeStream.format("journal").option("brokers", data.address).option("framing", "arrow")
    sink = sink.option("checkpointLocation", str(data.folder / "checkpoint")).trigger(availableNow=True)
    began = time.perf_counter()
    query = sink.start("bench/out")
    query.awaitTermination()
    took = time.perf_counter() - began
    triggers = [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"]]
    recorder.row("stream, journal to journal", "penstock", data.json_rows / took, "rows/s", batches=len(triggers))
    warm = triggers[1:] or triggers
    recorder.row("time of a trigger, p50", "penstock", statistics.median(warm), "ms", rows=data.json_rows // 12)


class _Data:
    """The input: the same rows and bytes for a journal and for a reader of Spark's own."""

    def __init__(self, folder: Path, brokers: list[str], options: Options) -> None:
        self.folder = folder
        self.address = ",".join(brokers)
        self._brokers = brokers
        self.json_rows = 4_000 if options.quick else 4_800_000
        self.arrow_rows = 20_000 if options.quick else 12_000_000
        self.json_bytes = 0

    def write(self) -> None:
        lines = _journal(JsonLines(Transfer), _transfers(self.json_rows))
        self.json_bytes = len(lines)
        self._append("bench/json", lines)
        for number, part in enumerate(_cut_lines(lines, 4)):
            (self.folder / "json").mkdir(exist_ok=True)
            (self.folder / "json" / f"{number}.json").write_bytes(part)
        batches = _batches(self.arrow_rows, 10_000)
        self._append("bench/arrow", _journal(ArrowBatches(SCHEMA), batches, turn_messages=1))
        (self.folder / "parquet").mkdir()
        share = max(1, len(batches) // 4)
        for begin in range(0, len(batches), share):
            table = pa.Table.from_batches(batches[begin : begin + share])
            pq.write_table(table, self.folder / "parquet" / f"{begin}.parquet")

    def create(self, name: str) -> None:
        with BlockingJournals(self._brokers) as journals:
            journals.create(JournalSpec(name=name, replication=1, fragment=FragmentSpec(length=FRAGMENT_BYTES)))

    def _append(self, name: str, content: bytes) -> None:
        self.create(name)
        with BlockingJournals(self._brokers) as journals:
            for begin in range(0, len(content), APPEND_BYTES):
                journals.append(name, content[begin : begin + APPEND_BYTES], timeout=READY_S)

    def rate(self, side: str, spark: Any) -> float:
        """Rows a second of the aggregate, from the call which makes the DataFrame on."""
        for states in self.folder.glob("cluster/**/.seq"):
            shutil.rmtree(states)
        began = time.perf_counter()
        frame = self._frame(side, spark)
        found = frame.groupBy("kind").agg({"amount": "sum", "number": "max", "account": "count"}).collect()
        took = time.perf_counter() - began
        assert side == SPARK_JSON or sum(row["count(account)"] for row in found) == self._rows_of(side), found
        return self._rows_of(side) / took

    def _rows_of(self, side: str) -> int:
        return self.json_rows if side in (JSON, JSON_ROWS, SPARK_JSON) else self.arrow_rows

    def _frame(self, side: str, spark: Any) -> Any:
        if side == SPARK_JSON:
            return spark.read.schema(DDL).json(str(self.folder / "json"))
        if side == PARQUET:
            return spark.read.schema(DDL).parquet(str(self.folder / "parquet"))
        if side == READY:
            return spark.read.format("ready").option("rows", self.arrow_rows).load()
        is_json = side in (JSON, JSON_ROWS)
        name, framing = ("bench/json", "json") if is_json else ("bench/arrow", "arrow")
        options = {"brokers": self.address, "framing": framing}
        if side not in (JSON, ARROW):  # as many tasks as cores: the planner looks at the bytes before a cut
            size = self.json_bytes if is_json else self.arrow_rows * 40
            options["splitBytes"] = str(max(1 << 20, size // 2))
        if side in (JSON, ARROW):
            return read_journal(spark, name, schema=DDL, **options)
        return spark.read.format("journal").options(**options).schema(DDL).load(name)


def _cut_lines(lines: bytes, count: int) -> list[bytes]:
    """About equal parts, each of whole lines."""
    cuts = [0, *(lines.find(b"\n", len(lines) * number // count) + 1 for number in range(1, count)), len(lines)]
    return [lines[begin:end] for begin, end in itertools.pairwise(cuts)]


@contextmanager
def _sparks(folder: Path) -> Iterator[Callable[[int], Any]]:
    """A Spark of one or two cores; the one before is stopped."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    import penstock.spark
    from penstock.spark.session import ARROW_OPTIONS, EVERYWHERE, STARTED

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    sessions: list[Any] = []

    def spark_of(cores: int) -> Any:
        for session in sessions:
            session.stop()
        sessions.clear()
        builder = SparkSession.Builder().master(f"local[{cores}]").appName("penstock bench spark")
        settings = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": ARROW_OPTIONS,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "2g",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **STARTED,
            **EVERYWHERE,
        }
        for key, value in settings.items():
            builder = builder.config(key, value)
        sessions.append(builder.getOrCreate())
        penstock.spark.register(sessions[0])
        return sessions[0]

    try:
        yield spark_of
    finally:
        for session in sessions:
            session.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()  # which is how the JVM learns that it is over
            gateway.proc.wait(READY_S)
            SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def _broker(folder: Path) -> Iterator[list[str]]:
    cluster = LocalCluster.create(folder, nodes=0, brokers=1, lease_ms=20_000)
    try:
        cluster.start_all()
        addresses = cluster.addresses("broker")
        deadline = time.monotonic() + READY_S
        with BlockingJournals(addresses) as journals:
            while True:
                try:
                    journals.list()
                    break
                except PenstockError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
        yield addresses
    finally:
        cluster.stop_all()


@contextmanager
def _folder() -> Iterator[Path]:
    """Next to the work, not in /tmp, which is memory on many machines."""
    folder = Path(tempfile.mkdtemp(prefix=".bench-spark-", dir=Path.cwd()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
