"""Reading journals with Spark: what a plain reader sees, whatever the framing, splits and restarts."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import Brokers, run_to_end
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
    read_plainly,
)

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.csv_rows import CsvRows
from penstock.messages.framing.fixed import Fixed
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.publisher import Publisher
from penstock.messages.uuid import producer_id

pytestmark = pytest.mark.timeout(600)
LINES = JsonLines()


def reading(spark: SparkSession, brokers: Brokers, **options: object) -> Any:
    found = spark.read.format("journal").option("brokers", brokers.address)
    return found.options(**{name: str(value) for name, value in options.items()})


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """In order of where the messages stand: Spark promises none between splits."""
    return sorted(tuple(row) for row in frame.collect())


def write(journals: BlockingJournals, name: str, appends: list[bytes]) -> None:
    for append in appends:
        journals.append(name, append, timeout=TIMEOUT_S)


def test_json_is_read_as_by_a_plain_reader_in_one_piece_and_in_many(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals
) -> None:
    name = make(journals, "source/json")
    write(journals, name, History(7, LINES, json_value).appends(150))
    expected = sorted((at, value["n"], value["text"]) for at, value in read_plainly(journals, name, LINES))
    assert len(expected) > 50
    schema = "_offset long, n long, text string"
    for options in ({}, {"splitBytes": 1500}):  # within messages and transactions, and across fragments
        found = reading(spark, brokers, journal=name, **options).schema(schema).load()
        assert rows_of(found) == expected
    assert reading(spark, brokers, journal=name, splitBytes=1500).load().rdd.getNumPartitions() > 4


def test_other_framings_are_read_as_by_a_plain_reader(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals
) -> None:
    name = make(journals, "source/arrow", labels={"content-type": ArrowBatches.content_type})
    write(journals, name, History(8, ArrowBatches(SCHEMA), arrow_value).appends(80))
    plain = read_plainly(journals, name, ArrowBatches(SCHEMA))
    expected = sorted((at, row["n"], row["text"]) for at, batch in plain for row in batch.to_pylist())
    found = reading(spark, brokers, splitBytes=4000, metadata="true").load(name).select("_offset", "n", "text")
    assert rows_of(found) == expected

    name = make(journals, "source/csv")
    write(journals, name, History(9, CsvRows(), csv_value).appends(80))
    expected = sorted((at, int(row[0]), row[1]) for at, row in read_plainly(journals, name, CsvRows()))
    found = (
        reading(spark, brokers, framing="csv", splitBytes=1024).schema("n int, text string, _offset long").load(name)
    )
    assert rows_of(found.select("_offset", "n", "text")) == expected

    name = make(journals, "source/raw")
    write(journals, name, History(10, Fixed(), raw_value).appends(80))
    bodies = sorted(read_plainly(journals, name, Fixed()))
    found = (
        reading(spark, brokers, framing="raw", metadata="true", splitBytes=1024).load(name).select("_offset", "value")
    )
    assert [(at, bytes(value)) for at, value in rows_of(found)] == bodies


def test_columns_tell_about_messages_and_times_bound_them(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals
) -> None:
    name = make(journals, "source/about")
    publisher = Publisher(producer_id(5), NOON)
    early = publisher.committed(name, LINES, [{"n": 1}])
    publisher.update(NOON + 60_000_000_000)
    late = publisher.committed(name, LINES, [{"n": 2}])
    foreign = b'{"n":3,"_meta":{"uuid":"%s"}}\n' % publisher.committed(name, LINES, [{}])[18:54]
    write(journals, name, [early, late, foreign, b'{"n":4}\n'])
    found = reading(spark, brokers, metadata="true", columns="n").load(name).orderBy("_offset").collect()
    assert [(row.n, row._journal, row._offset) for row in found] == [
        (1, name, 0),
        (2, name, len(early)),
        (3, name, len(early + late)),
        (4, name, len(early + late + foreign)),
    ]
    assert [row._uuid for row in found][:3] == [early[18:54].decode(), late[18:54].decode(), foreign[24:60].decode()]
    assert [str(row._published) for row in found][::3] == ["2025-11-15 12:00:00.000001", "None"]
    windows: dict[tuple[str, str], list[int]] = {
        ("startingTime", "2025-11-15T12:00:30Z"): [2, 3],
        ("endingTime", "2025-11-15T12:00:30"): [1],
        ("startingOffsets", json.dumps({name: len(early)})): [2, 3, 4],
        ("endingOffsets", json.dumps({name: len(early)})): [1],
    }
    for (option, value), numbers in windows.items():
        assert [row[0] for row in rows_of(reading(spark, brokers, **{option: value}).load(name).select("n"))] == numbers


def stream(spark: SparkSession, brokers: Brokers, folder: Path, source: str, **options: object) -> list[list[Any]]:
    """Run a query over what is available now, on a checkpoint in the folder; return rows batch by batch."""
    batches: dict[int, list[Any]] = {}

    def keep(frame: DataFrame, number: int) -> None:
        batches[number] = [tuple(row) for row in frame.collect()]

    reader = spark.readStream.format("journal").option("brokers", brokers.address).schema("n long, _journal string")
    frame = reader.options(**{name: str(value) for name, value in options.items()}).load(source)
    query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder / "checkpoint"))
    run_to_end(query)
    return [batches[number] for number in sorted(batches)]


def test_a_stream_over_restarts_reads_what_a_plain_reader_reads(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, tmp_path: Path
) -> None:
    name = make(journals, "source/stream/one")
    history = History(11, LINES, json_value)
    write(journals, name, history.appends(60))
    found = stream(spark, brokers, tmp_path, "source/stream/", maxBytesPerTrigger=2500)
    assert len(found) > 2
    other = make(journals, "source/stream/two")  # which comes while the query is down: read from its begin
    write(journals, name, history.appends(60))
    write(journals, other, [Publisher(producer_id(1), NOON).committed(other, LINES, [{"n": -1}])])
    found += stream(spark, brokers, tmp_path, "source/stream/", maxBytesPerTrigger=2500)
    assert stream(spark, brokers, tmp_path, "source/stream/") == []
    rows = [row for batch in found for row in batch]
    expected = [(value["n"], name) for _, value in read_plainly(journals, name, LINES)]
    assert [row for row in rows if row[1] == name] == expected  # in the order of commits, over all batches
    assert [row for row in rows if row[1] == other] == [(-1, other)]
