"""Plans for Java: which bytes of which files; and what happens to files which are not what a plan takes them for."""

import base64
import shutil
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from tests.spark.columns import frames_of, parts_of, wait_stored
from tests.spark.conftest import Brokers
from tests.spark.histories import NOON, TIMEOUT_S, make

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.publisher import Publisher
from penstock.messages.uuid import producer_id
from penstock.spark import read_journal
from penstock.spark.journals.column_plan import FramesPart, plan_text
from penstock.spark.journals.java_source import CLASS, add_jar, known_here

pytestmark = pytest.mark.timeout(600)
SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("amount", pa.float64())])
DDL = "n long, text string, amount double"
ROWS, FRAMES = 50, 12
DAMAGES = 16


@pytest.fixture(scope="module")
def part(spark: SparkSession, brokers: Brokers) -> Iterator[FramesPart]:  # a schema needs a session
    """What Java reads of a journal of twelve frames, which are in some fragments."""
    with BlockingJournals(brokers.addresses) as journals:
        name = make(journals, "plan/frames", fragment_bytes=5000, labels={"content-type": ArrowBatches.content_type})
        publisher = Publisher(producer_id(3), NOON)
        for number in range(FRAMES):
            rows = [{"n": number * ROWS + row, "text": f"é{row}", "amount": row / 4} for row in range(ROWS)]
            rows[number] = {}  # nulls
            batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
            journals.append(name, publisher.committed(name, ArrowBatches(SCHEMA), [batch]), timeout=TIMEOUT_S)
        wait_stored(journals, name, 5000)
        (found,) = frames_of(parts_of(brokers, name, DDL))
        yield found


def read(spark: SparkSession, part: FramesPart) -> list[Any]:
    add_jar(spark)
    with known_here(spark):
        frame = spark.read.format(CLASS).schema(DDL).option("plan", plan_text([part], {})).load()
    return frame.collect()


def copied(part: FramesPart, folder: Path, *, with_sums: bool) -> FramesPart:
    """The same part in files of its own."""
    files = []
    for uri in part.files:
        path = Path(unquote(urlsplit(uri).path))
        shutil.copyfile(path, folder / path.name)
        files.append((folder / path.name).as_uri())
    return msgspec.structs.replace(part, files=files, sums=part.sums if with_sums else [None] * len(files))


def path_of(part: FramesPart, number: int) -> Path:
    return Path(unquote(urlsplit(part.files[number]).path))


def test_whole_fragments_are_one_span_and_have_their_sums(part: FramesPart) -> None:
    assert len(part.files) > 1
    assert len(part.spans) == 2  # acknowledgements lie between the frames, and nothing else does
    assert all(sum_ is not None and len(base64.b64decode(sum_)) == 20 for sum_ in part.sums)
    assert part.begins == part.froms
    assert part.tos[:-1] == part.froms[1:]


def test_parts_begin_with_fragments_where_these_are_small(brokers: Brokers, part: FramesPart) -> None:
    parts = frames_of(parts_of(brokers, part.journal, DDL, splitBytes="8000"))
    assert len(parts) > 1
    whole = [each.files[at] for each in parts for at, sum_ in enumerate(each.sums) if sum_ is not None]
    assert sorted(whole) == sorted(part.files)  # each fragment's sum is looked at by one of them
    small = frames_of(parts_of(brokers, part.journal, DDL, splitBytes="2000"))
    assert small[0].spans[0] == part.spans[0]
    assert all(one.spans[-1] <= two.spans[0] for one, two in pairwise(small))


def test_a_changed_byte_is_found_by_the_sum(spark: SparkSession, part: FramesPart, tmp_path: Path) -> None:
    copy = copied(part, tmp_path, with_sums=True)
    assert len(read(spark, copy)) > ROWS
    content = bytearray(path_of(copy, 1).read_bytes())
    content[-9] ^= 1  # of a number: nothing but the sum can tell
    path_of(copy, 1).write_bytes(content)
    with pytest.raises(Py4JJavaError, match="is damaged: its content has another sum than its name"):
        read(spark, copy)


def test_files_which_are_short_or_gone_are_errors(spark: SparkSession, part: FramesPart, tmp_path: Path) -> None:
    copy = copied(part, tmp_path, with_sums=False)
    content = path_of(copy, 1).read_bytes()
    path_of(copy, 1).write_bytes(content[:-8])
    with pytest.raises(Py4JJavaError, match="has less content than its name says"):
        read(spark, copy)
    path_of(copy, 1).unlink()
    with pytest.raises(Py4JJavaError, match="No such file"):
        read(spark, copy)
    path_of(copy, 1).write_bytes(bytes(len(content)))
    with pytest.raises(Py4JJavaError, match=f"{part.journal} at .*: not a record batch"):
        read(spark, copy)


def test_no_damage_ends_the_jvm(spark: SparkSession, part: FramesPart, tmp_path: Path) -> None:
    """Lengths, places and offsets which are wrong, with no sum to tell: an error which names the place, or values."""
    rng = Random(11)
    copy = copied(part, tmp_path, with_sums=False)
    good, rows, errors = path_of(copy, 1).read_bytes(), read(spark, copy), list[str]()
    for _ in range(DAMAGES):
        content = bytearray(good)
        for _ in range(rng.choice((1, 1, 4))):
            at = rng.randrange(0, len(content) - 8, 4)
            number = rng.choice((-1, 0, 1, 0x7FFFFFFF, -0x80000000, rng.randrange(1 << 20), 8))
            struct.pack_into("<i", content, at, number)
        path_of(copy, 1).write_bytes(content)
        try:
            read(spark, copy)
        except Py4JJavaError as error:
            errors.append(str(error))
    assert len(errors) > DAMAGES // 8
    assert all(f"{part.journal} at " in error for error in errors), errors
    path_of(copy, 1).write_bytes(good)
    assert read(spark, copy) == rows


def test_a_plan_shows_nothing_of_its_options(spark: SparkSession, brokers: Brokers, part: FramesPart) -> None:
    frame = read_journal(spark, part.journal, schema=DDL, brokers=brokers.address, token="a secret of mine")
    said = frame._jdf.queryExecution().toString()
    assert "penstock journal" in said
    assert "secret" not in said
    assert '"parts"' not in said


def test_a_fragment_which_vanishes_is_left_to_workers(
    brokers: Brokers, part: FramesPart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.spark.journals.frame_places._is_file", lambda _: True)  # it was there a moment ago
    monkeypatch.setattr("penstock.spark.journals.frame_places.file_of", lambda _: Path("/nowhere"))
    assert not frames_of(found := parts_of(brokers, part.journal, DDL))
    assert found
