"""Test the internals of Spark that Penstock uses. One module alone uses them.

`make spark-matrix` runs this file with each release. A new Spark that changes something fails here first.
"""

import ast
import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.spark.conftest import Brokers, run_to_end
from tests.spark.histories import NOON, make

import penstock.spark
from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.kernel.errors import ConfigError
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.publisher import Publisher
from penstock.messages.uuid import producer_id
from penstock.spark import daemon, versions
from penstock.spark.journals.journal_source import JournalStreamReader
from penstock.spark.options import source_options
from penstock.spark.pipelines.ends import journal
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.running.pipeline_run import PipelineRun, lag_of
from penstock.spark.versions import HAS_READ_LIMITS, progress_offset

pytestmark = pytest.mark.timeout(300)
SOURCES = Path(penstock.spark.__file__).parent
INSIDE = ("pyspark.sql.streaming.datasource", "pyspark.sql.pandas.types", "pyspark.worker_util", "pyspark.java_gateway")
NEW = {"DataSourceStreamArrowWriter", "ReadLimit", "SupportsTriggerAvailableNow", "__version__"}


def taken(path: Path) -> Iterator[str]:
    """The modules and names that a file takes from PySpark."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark"):
            yield node.module or ""
            yield from (name.name for name in node.names)
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.Attribute) and node.attr == "__version__":
            yield node.attr


def test_one_module_looks_at_the_version_and_inside() -> None:
    files = [path for path in SOURCES.rglob("*.py") if path != Path(str(versions.__file__))]
    files += (SOURCES.parents[1] / "pyspark_journal").glob("*.py")
    wrong = {str(path): found for path in files if (found := {*INSIDE, *NEW} & set(taken(path)))}
    assert not wrong
    assert {*INSIDE[:2], *NEW} <= set(taken(Path(str(versions.__file__))))  # this test sees such names


def test_a_spark_that_is_too_old_is_refused_by_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(pyspark, "__version__", "3.5.8")
        with pytest.raises(ConfigError, match=r"^PySpark 3\.5\.8 is here, and penstock.spark works with PySpark 4\.0"):
            importlib.reload(versions)
    importlib.reload(versions)


def test_the_daemon_of_workers_can_load_what_it_names() -> None:
    """A failed import in the daemon stops all workers."""
    for name in daemon.LOADED:
        importlib.import_module(name)


def test_types_are_those_that_spark_expects(spark: SparkSession) -> None:
    ddl = "t timestamp, ntz timestamp_ntz, s struct<a: string, b: array<long>>, m map<string, decimal(9,2)>, x binary"
    schema = versions.to_arrow(kind_of(ddl))
    assert schema.field("t").type == pa.timestamp("us", "UTC")
    assert schema.field("ntz").type == pa.timestamp("us")
    assert schema.field("s").type == pa.struct([("a", pa.string()), ("b", pa.list_(pa.int64()))])
    assert schema.field("m").type == pa.map_(pa.string(), pa.decimal128(9, 2))
    assert versions.from_arrow(schema, ntz=True) == kind_of(ddl)
    assert versions.from_arrow(schema)["ntz"].dataType.typeName() == "timestamp"


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ('{"new": {}, "to": {"a": 7}}', {"new": {}, "to": {"a": 7}}),  # 4.2 and newer
        ("{'new': {}, 'to': {'a': 7}}", {"new": {}, "to": {"a": 7}}),  # 4.0 and 4.1
        ("None", None),
        ("a word", None),
    ],
)
def test_offsets_of_progress_are_read_in_both_forms(text: str | None, offset: object) -> None:
    assert progress_offset(text) == offset


def kind_of(ddl: str) -> StructType:
    found = StructType.fromDDL(ddl)
    assert isinstance(found, StructType)
    return found


def put(journals: BlockingJournals, name: str, numbers: range) -> None:
    rows = [{"n": number} for number in numbers]
    journals.append(name, Publisher(producer_id(numbers.start + 7), NOON).committed(name, JsonLines(), rows))


def test_a_source_of_an_old_spark_limits_itself(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals
) -> None:
    """In the order in which Spark 4.0 and 4.1 ask: a fresh query, and one that was started again."""
    name = make(journals, "versions/limits")
    put(journals, name, range(50))
    end = journals.stat(name).write_head
    options = source_options({"brokers": brokers.address, "path": name, "maxBytesPerTrigger": "1000"}, is_stream=True)
    fresh = JournalStreamReader(options, kind_of("n long"))
    first = fresh.latestOffset()
    assert first["to"] == {name: 1000}
    fresh.partitions(fresh.initialOffset(), first)
    assert fresh.latestOffset()["to"] == {name: 2000}
    again = JournalStreamReader(options, kind_of("n long"))
    again.partitions(first, first)
    assert again.latestOffset()["to"] == {name: 2000}
    until = source_options(
        {"brokers": brokers.address, "path": name, "untilOffsets": json.dumps({name: 1500})}, is_stream=True
    )
    ending = JournalStreamReader(until, kind_of("n long"))
    last = ending.latestOffset()
    assert last["to"] == {name: 1500}
    ending.partitions({}, last)
    assert ending.latestOffset() == last
    assert end > 2000


def test_a_limited_flow_reads_to_the_present_end_and_tells_its_lag(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, tmp_path: Path
) -> None:
    source, target = make(journals, "versions/flow"), make(journals, "versions/flow-out")
    put(journals, source, range(100))
    pipeline = Pipeline("versions", checkpoints=tmp_path / "checkpoints")
    there = journal(source, schema="n long", brokers=brokers.address, maxBytesPerTrigger="3000")
    pipeline.flow(source=there, sink=journal(target, brokers=brokers.address))(copied)
    run = PipelineRun(spark, pipeline)
    run.start(once=True)
    run.watch(lambda flows: None)
    (done,) = run.progress()
    assert done.lag_bytes == 0
    assert done.batch >= 2
    reader = spark.read.format("journal").option("brokers", brokers.address).schema("n long")
    assert sorted(row.n for row in reader.load(target).collect()) == list(range(100))


def copied(rows):  # type: ignore[no-untyped-def]
    return rows


def test_progress_has_offsets(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, tmp_path: Path
) -> None:
    name = make(journals, "versions/progress")
    put(journals, name, range(10))
    frame = spark.readStream.format("journal").option("brokers", brokers.address).schema("n long").load(name)
    writer = frame.writeStream.format("noop")
    progress = run_to_end(writer.option("checkpointLocation", str(tmp_path / "c"))).recentProgress
    (read,) = {str(progress_offset(each["sources"][0]["endOffset"])) for each in progress if each["numInputRows"]}
    assert ast.literal_eval(read)["to"] == {name: journals.stat(name).write_head}
    if HAS_READ_LIMITS:  # older ones take the end of a limited batch for the journal's
        assert lag_of(progress[-1]["sources"]) == 0
