"""Reading journals as columns gives the rows of the format `journal`, whoever reads them: Java or Python workers."""

import datetime
import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.columns import frames_of, parts_of, wait_stored
from tests.spark.conftest import Brokers
from tests.spark.histories import (
    NOON,
    SCHEMA,
    TIMEOUT_S,
    History,
    arrow_value,
    csv_value,
    json_value,
    make,
    raw_value,
)

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.records.fragment import CompressionCodec
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import InvalidArgument
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.csv_rows import CsvRows
from penstock.messages.framing.fixed import Fixed
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.publisher import Publisher
from penstock.messages.uuid import producer_id
from penstock.spark import read_journal

pytestmark = pytest.mark.timeout(600)
DDL = "n long, text string"


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def by_format(spark: SparkSession, brokers: Brokers, name: str, schema: str | None, **options: str) -> DataFrame:
    reader = spark.read.format("journal").option("brokers", brokers.address).options(**options)
    return (reader if schema is None else reader.schema(schema)).load(name)


def by_columns(spark: SparkSession, brokers: Brokers, name: str, schema: str | None, **options: str) -> DataFrame:
    return read_journal(spark, name, schema=schema, brokers=brokers.address, **options)


def same(spark: SparkSession, brokers: Brokers, name: str, schema: str | None = DDL, **options: str) -> int:
    """Both ways give the same; how many rows that is."""
    expected = by_format(spark, brokers, name, schema, **options)
    found = by_columns(spark, brokers, name, schema, **options)
    assert found.schema == expected.schema
    rows = rows_of(found)
    assert rows == rows_of(expected)
    return len(rows)


def write(journals: BlockingJournals, name: str, appends: list[bytes]) -> None:
    for append in appends:
        journals.append(name, append, timeout=TIMEOUT_S)


def batches(schema: Any, *values: list[dict[str, Any]]) -> bytes:
    """A committed transaction of record batches."""
    made = [pa.RecordBatch.from_pylist(rows, schema=schema) for rows in values]
    return Publisher(producer_id(hash(str(schema)) % 2**40), NOON).committed("any", ArrowBatches(schema), made)


@pytest.fixture(scope="module")
def history(brokers: Brokers) -> Iterator[str]:
    """A journal of Arrow batches: overlapping transactions, some rolled back, some pending, some twice; the last ones
    are with brokers only.
    """
    with BlockingJournals(brokers.addresses) as journals:
        name = make(
            journals, "columnar/history", fragment_bytes=6000, labels={"content-type": ArrowBatches.content_type}
        )
        write(journals, name, History(21, ArrowBatches(SCHEMA), arrow_value).appends(150))
        wait_stored(journals, name, 6000)
        yield name


def test_committed_and_uncommitted_rows_are_those_of_the_format(
    spark: SparkSession, brokers: Brokers, history: str
) -> None:
    assert frames_of(parts := parts_of(brokers, history, DDL))
    assert len(parts) == 2  # what is stored, and what is with brokers
    assert same(spark, brokers, history) > 50
    assert same(spark, brokers, history, None) > 50  # the schema is found
    assert same(spark, brokers, history, isolation="uncommitted") > same(spark, brokers, history, splitBytes="20000")
    assert len(parts_of(brokers, history, DDL, splitBytes="20000")) > 3


def test_any_begin_and_end_give_the_rows_of_the_format(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, history: str
) -> None:
    end, rng = journals.stat(history).write_head, Random(5)
    for _ in range(4):
        first, last = sorted(rng.randrange(end) for _ in range(2))
        bounds = {
            "startingOffsets": json.dumps({history: first}),
            "endingOffsets": json.dumps({history: last}),
            "splitBytes": "9000",
        }
        same(spark, brokers, history, **bounds)
    same(spark, brokers, history, startingOffsets="latest")


def test_columns_are_read_as_a_query_needs_them(spark: SparkSession, brokers: Brokers, history: str) -> None:
    same(spark, brokers, history, None, columns="text")
    same(spark, brokers, history, "text string, missing double, n long")
    both = [way(spark, brokers, history, DDL) for way in (by_format, by_columns)]
    counts = [frame.count() for frame in both]
    assert counts[0] == counts[1] > 50
    assert len({str(frame.selectExpr("sum(n)", "max(text)").collect()) for frame in both}) == 1
    assert len(both[1].limit(3).collect()) == 3  # which leaves workers and files before their end
    about = "n long, _offset long, _uuid string, _published timestamp, _journal string"
    assert not frames_of(parts_of(brokers, history, about))
    assert not frames_of(parts_of(brokers, history, DDL, onBad="skip"))
    assert same(spark, brokers, history, about) == counts[0]


def test_all_plain_types_are_read(spark: SparkSession, brokers: Brokers, journals: BlockingJournals) -> None:
    kinds = pa.schema(
        [
            ("b", pa.bool_()), ("i1", pa.int8()), ("i2", pa.int16()), ("i4", pa.int32()), ("i8", pa.int64()),
            ("f4", pa.float32()), ("f8", pa.float64()), ("s", pa.string()), ("x", pa.binary()), ("d", pa.date32()),
            ("t", pa.timestamp("us", "UTC")), ("ntz", pa.timestamp("us")), ("m", pa.decimal128(20, 3)),
        ]
    )  # fmt: skip
    moment = datetime.datetime(2026, 11, 16, 3, 4, 5, 6, tzinfo=datetime.UTC)
    full = {
        "b": True, "i1": -1, "i2": 300, "i4": 70_000, "i8": 1 << 40, "f4": 0.5, "f8": -1.25, "s": "žluťoučký 🐎",
        "x": b"\x00\xff", "d": moment.date(), "t": moment, "ntz": moment.replace(tzinfo=None), "m": Decimal("-7.125"),
    }  # fmt: skip
    alternating = [{name: value for at, (name, value) in enumerate(full.items()) if (at + row) % 2} for row in range(9)]
    name = make(journals, "columnar/types", fragment_bytes=2000, labels={"content-type": ArrowBatches.content_type})
    write(journals, name, [batches(kinds, [full], [{}], [], alternating, [full] * 20)])
    write(journals, name, [batches(SCHEMA, [{"n": 1}])])  # another schema, with none of these columns
    wait_stored(journals, name, 2000)
    ddl = (
        "b boolean, i1 byte, i2 short, i4 int, i8 long, f4 float, f8 double, s string, x binary, d date, "
        "t timestamp, ntz timestamp_ntz, m decimal(20,3)"
    )
    assert frames_of(parts_of(brokers, name, ddl))
    assert same(spark, brokers, name, ddl) == 32
    assert same(spark, brokers, name, None) == 32
    assert not frames_of(parts_of(brokers, name, "i4 long"))  # which must be cast
    assert same(spark, brokers, name, "i4 long, m decimal(22,3)") == 32


def test_what_java_does_not_read_comes_from_workers(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals
) -> None:
    framings: dict[str, tuple[Any, Any, str]] = {
        "json": (JsonLines(), json_value, "n long, text string, _offset long"),
        "csv": (CsvRows(), csv_value, "n int, text string"),
        "raw": (Fixed(), raw_value, "value binary, _offset long"),
    }
    for seed, (framing, (writer, value_of, ddl)) in enumerate(framings.items()):
        name = make(journals, f"columnar/{framing}")
        write(journals, name, History(seed, writer, value_of).appends(60))
        assert not frames_of(parts_of(brokers, name, ddl, framing=framing))
        assert same(spark, brokers, name, ddl, framing=framing, splitBytes="2000") > 20
        assert by_columns(spark, brokers, name, ddl, framing=framing).count() > 20
    name = "columnar/packed"
    fragments = FragmentSpec(length=4000, compression_codec=CompressionCodec.ZSTANDARD)
    journals.create(JournalSpec(name=name, replication=1, fragment=fragments))
    write(journals, name, [b"", *History(22, ArrowBatches(SCHEMA), arrow_value).appends(60)])
    assert not frames_of(parts_of(brokers, name, DDL, framing="arrow"))
    assert same(spark, brokers, name, framing="arrow", splitBytes="9000") > 20
    nested = pa.schema([("n", pa.int64()), ("list", pa.list_(pa.int64()))])
    name = make(journals, "columnar/nested", fragment_bytes=1200)
    write(journals, name, [batches(nested, *[[{"n": 1, "list": [1, None]}]] * 4)] * 2)
    assert not frames_of(parts_of(brokers, name, DDL, framing="arrow"))
    assert same(spark, brokers, name, "n long, list array<bigint>", framing="arrow") > 0


def test_parts_within_parts_are_read_in_every_batch(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals
) -> None:
    name = make(journals, "columnar/parts", fragment_bytes=1 << 22)
    pad = "x" * 300_000  # so that workers send several batches
    rows: list[dict[str, Any]] = [
        {"n": n, "s": {"b": n % 2 == 0, "in": {"text": f"t{n:03}", "deep": {"x": n / 2, "list": [n, None]}}},
         "each": [{"sku": f"s{n % 3}", "parts": [{"id": n, "tags": ["a", str(n)]}]}] * (n % 3)}
        for n in range(60)
    ]  # fmt: skip
    publisher = Publisher(producer_id(9), NOON)
    for row in rows:
        journals.append(name, publisher.committed(name, JsonLines(), [{**row, "pad": pad}]), timeout=TIMEOUT_S)
    ddl = (
        "n long, s struct<b: boolean, in: struct<text: string, deep: struct<x: double, list: array<bigint>>>>, "
        "each array<struct<sku: string, parts: array<struct<id: bigint, tags: array<string>>>>>"
    )
    found = by_columns(spark, brokers, name, ddl)
    assert not frames_of(parts_of(brokers, name, ddl))
    (only,) = found.selectExpr("count(*)", "sum(s.in.deep.x)", "sum(s.in.deep.list[0])", "max(s.in.text)").collect()
    count = len(rows)
    assert tuple(only) == (count, count * (count - 1) / 4, count * (count - 1) // 2, "t059")
    assert [row.asDict(recursive=True) for row in found.orderBy("n").collect()] == rows
    assert found.cache().where("size(each) = 2").count() == sum(row["n"] % 3 == 2 for row in rows)


def test_journals_are_read_from_any_thread(spark: SparkSession, brokers: Brokers, history: str) -> None:
    found: list[int] = []
    reading = threading.Thread(target=lambda: found.append(by_columns(spark, brokers, history, DDL).count()))
    reading.start()
    reading.join()
    assert found == [by_format(spark, brokers, history, DDL).count()]


def test_several_journals_are_one_frame(spark: SparkSession, brokers: Brokers, journals: BlockingJournals) -> None:
    for seed in range(2):
        name = make(journals, f"columnar/several/{seed}", fragment_bytes=3000)
        write(journals, name, History(seed, ArrowBatches(SCHEMA), arrow_value).appends(60))
    assert same(spark, brokers, "columnar/several/", framing="arrow", startingTime="2025-11-15T12:00:00.000002") > 20


def test_a_worker_which_fails_says_why(spark: SparkSession, brokers: Brokers, journals: BlockingJournals) -> None:
    name = make(journals, "columnar/bad")
    write(journals, name, [b'{"n":1}\n{"n":"one"}\n{"n":2}\n'])
    with pytest.raises(Exception, match=f"MalformedFrame: {name} at 8: not a JSON line of this schema"):
        by_columns(spark, brokers, name, "n long").collect()
    assert rows_of(by_columns(spark, brokers, name, "n long", onBad="skip")) == [(1,), (2,)]


def test_a_schema_which_is_none_is_refused(spark: SparkSession, brokers: Brokers) -> None:
    with pytest.raises(InvalidArgument, match="int is not the schema of a DataFrame"):
        read_journal(spark, "any/journal", schema="int", brokers=brokers.address)
