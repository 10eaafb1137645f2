"""Lines of JSON by Java: the rows of the format `journal`, whatever they look like; a worker's where Java stops."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from tests.spark.columns import frames_of, parts_of, wait_stored
from tests.spark.conftest import Brokers
from tests.spark.histories import NOON, History, json_value, make
from tests.spark.journals.test_column_plan import copied, path_of
from tests.spark.journals.test_columnar import by_columns, by_format, rows_of, same, write

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.kernel.ids import Clock, Offset
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.publisher import Publisher
from penstock.messages.row_decoder import Piece
from penstock.messages.uuid import ACK_TXN, CONTINUE_TXN, ProducerId, Uuid, producer_id
from penstock.spark import read_journal
from penstock.spark.journals import line_places
from penstock.spark.journals.column_plan import FramesPart, plan_text
from penstock.spark.journals.java_source import CLASS, add_jar, known_here
from penstock.spark.journals.line_places import LinePlaces

pytestmark = pytest.mark.timeout(600)
DDL = "n long, text string"
KINDS = "s string, l long, i int, h short, y byte, d double, f float, b boolean"
FILLER_BYTES = 1200  # of each line of a journal whose parts are of one line
JSON_LABELS = {"content-type": JsonLines.content_type}

PLAIN = [
    '"s":"text","l":1,"i":2,"h":3,"y":4,"d":5.5,"f":0.25,"b":true',
    '"b":false,"f":-0.1,"d":-1,"y":-128,"h":-32768,"i":-2147483648,"l":-999999999999999999,"s":""',
    '"s":"žluťoučký kůň 🐎"',
    '"s":null,"l":null,"i":null,"h":null,"y":null,"d":null,"f":null,"b":null',
    '"other":"x","l":7,"another":null,"more":-0.5e3,"flag":true,"s":"behind"',
    '"d":0.1234567890123456789,"f":1234567.891',
    '"d":1e300,"f":1E-3,"l":0',
    '"d":123456789012345,"f":16777217',
    '"d":0.000001,"f":0.000001',
    '"d":1e-400',
    '"l":-0,"d":-0.0',
    '"s":"a/b"',
    '"l":123456789012345678',
    '"S":"another key","":"empty key","é":"é"',
]
ODD = [
    r'"s":"tab\tquote\"slash\\ é 🐎","l":1',
    '"s": "blanks" , "l": 1',
    '"l":1,"other":{"s":"within","list":[1,{"s":2}]}',
    r'"s":"key","l":1',
    '"l":9223372036854775807',
    '"f":1e39',  # which a float has not
    '"l":1,"other":"no \\"end"',
]
REFUSED = [
    '"d":1e400',
    '"l":1.5',
    '"s":1',
    '"b":"true"',
    '"i":2147483648',
    '"y":128',
    '"d":"1"',
    '"l":01',
    '"s":"a","l"',
    '"l":1,',
]


def line(fields: str, number: int, filler_bytes: int = 0) -> bytes:
    """A line as we write it, with fields as they are given."""
    uuid = Uuid(ProducerId(5), Clock((1 << 44) + number), 0).text
    filler = f'"filler":"{"-" * filler_bytes}",' if filler_bytes else ""
    return f'{{"_meta":{{"uuid":"{uuid}"}},{filler}{fields}}}\n'.encode()


@pytest.fixture(scope="module")
def history(brokers: Brokers) -> Iterator[str]:
    """Overlapping transactions, some rolled back, some pending, some twice; the last ones are with brokers only."""
    with BlockingJournals(brokers.addresses) as journals:
        name = make(journals, "lines/history", fragment_bytes=5000, labels=JSON_LABELS)
        write(journals, name, History(31, JsonLines(), json_value).appends(250))
        wait_stored(journals, name, 5000)
        yield name


def test_committed_and_uncommitted_rows_are_those_of_the_format(
    spark: SparkSession, brokers: Brokers, history: str
) -> None:
    parts = parts_of(brokers, history, DDL)
    assert [each.are_lines for each in frames_of(parts)] == [True]
    assert len(parts) == 2  # what is stored, and what is with brokers
    assert same(spark, brokers, history) > 50
    assert same(spark, brokers, history, None) > 50  # the schema is found
    assert same(spark, brokers, history, isolation="uncommitted") > same(spark, brokers, history)
    assert same(spark, brokers, history, startingTime="2025-11-15T12:00:00.000002") > 20
    about = "n long, _offset long, _uuid string"
    assert not frames_of(parts_of(brokers, history, about))
    assert same(spark, brokers, history, about) > 50


def test_any_begin_and_end_give_the_rows_of_the_format(
    spark: SparkSession,
    brokers: Brokers,
    journals: BlockingJournals,
    history: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_places, "GRAIN_BYTES", 1000)
    monkeypatch.setattr(line_places, "CHUNK_BYTES", 1500)  # so that transactions overlap chunks
    assert len(frames_of(parts_of(brokers, history, DDL, splitBytes="4000"))) > 3
    end, rng = journals.stat(history).write_head, Random(6)
    for _ in range(4):
        first, last = sorted(rng.randrange(end) for _ in range(2))
        bounds = {"startingOffsets": json.dumps({history: first}), "endingOffsets": json.dumps({history: last})}
        same(spark, brokers, history, splitBytes="4000", **bounds)


def test_plain_lines_need_no_worker(spark: SparkSession, brokers: Brokers, journals: BlockingJournals) -> None:
    name = make(journals, "lines/plain", fragment_bytes=1024, labels=JSON_LABELS)
    publisher = Publisher(producer_id(3), NOON)
    rows = [{"s": f"é{number}", "l": number, "d": number / 8, "b": number % 3 == 0} for number in range(60)]
    write(journals, name, [publisher.committed(name, JsonLines(), rows[at : at + 20]) for at in (0, 20, 40)])
    write(journals, name, [b"".join(line(fields, number) for number, fields in enumerate(PLAIN))])
    write(journals, name, [line('"s":"the last"', 99)])
    wait_stored(journals, name, 1024)
    (part,) = frames_of(parts_of(brokers, name, KINDS))
    assert len(part.spans) == 2  # over the acknowledgements, too
    stored = json.dumps({name: part.spans[1]})
    assert rows_of(read(spark, part, KINDS)) == rows_of(by_format(spark, brokers, name, KINDS, endingOffsets=stored))
    assert same(spark, brokers, name, KINDS) == len(rows) + len(PLAIN) + 1
    assert same(spark, brokers, name, "s string, missing long, d double") == len(rows) + len(PLAIN) + 1
    assert by_columns(spark, brokers, name, KINDS).count() == len(rows) + len(PLAIN) + 1


def read(spark: SparkSession, part: FramesPart, ddl: str) -> Any:
    """A part by Java, for which there are no workers."""
    add_jar(spark)
    with known_here(spark):
        return spark.read.format(CLASS).schema(ddl).option("plan", plan_text([part], {})).load()


def test_a_worker_reads_on_from_the_first_line_which_is_not_plain(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line is a part of its own, so each is tried by Java first; then all are one part."""
    name = make(journals, "lines/odd", fragment_bytes=2000, labels=JSON_LABELS)
    fields = [*PLAIN, *ODD, *(made_fields(Random(seed)) for seed in range(40))]
    lines = [line(each, number, FILLER_BYTES) for number, each in enumerate(fields)]
    lines += [b'{"l":%d,"s":"no uuid","filler":"%b"}\n' % (number, b"-" * FILLER_BYTES) for number in range(3)]
    lines.append(b'{"l":1,"_meta":{"uuid":"%b"}}\n' % Uuid(ProducerId(6), Clock(1 << 44), 0).text.encode())
    lines.append(line("", 98)[:-3] + b"}\n")  # a message without fields is a row
    lines.append(line('"s":"the last"', 99))
    write(journals, name, [b"".join(lines[:-1]), lines[-1]])
    wait_stored(journals, name, 2000)
    monkeypatch.setattr(line_places, "GRAIN_BYTES", 1)
    assert len(frames_of(parts_of(brokers, name, KINDS, splitBytes="1024"))) > len(fields) // 2
    assert same(spark, brokers, name, KINDS, splitBytes="1024") == len(lines)
    assert same(spark, brokers, name, KINDS) == len(lines)
    (part,) = frames_of(parts_of(brokers, name, KINDS))
    with pytest.raises(Py4JJavaError, match="WorkerReader"):
        read(spark, part, KINDS).collect()


def made_fields(rng: Random) -> str:
    """Fields of the columns, as some program may write them."""
    number: Any = rng.choice([rng.randrange(-100, 100), rng.getrandbits(40), rng.random(), rng.uniform(-1e9, 1e9)])
    whole = rng.randrange(-128, 128)
    texts = ["plain", "é", 'a "quote"', "back\\slash", "line\nend", "\x7f", "🐎" * 5, "x" * rng.randrange(30), "\u2028"]
    value = {"s": rng.choice(texts), "d": number, "f": whole / 8, "y": whole, "b": rng.random() < 0.5}
    value = dict(rng.sample(sorted(value.items()), rng.randrange(1, 6)))
    separators = rng.choice([(",", ":"), (", ", ": ")])
    return json.dumps(value, ensure_ascii=rng.random() < 0.5, separators=separators)[1:-1]


@pytest.mark.parametrize("fields", REFUSED)
def test_a_line_of_another_schema_is_an_error_which_names_it(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, fields: str
) -> None:
    name = make(journals, f"lines/refused-{REFUSED.index(fields)}", fragment_bytes=1024, labels=JSON_LABELS)
    first = line('"l":1', 1)
    write(journals, name, [first + line(fields, 2) + line('"l":3', 3, 1100), line('"l":4', 4)])
    wait_stored(journals, name, 1024)
    assert frames_of(parts_of(brokers, name, KINDS))
    with pytest.raises(Exception, match=f"MalformedFrame: {name} at {len(first)}: not .* JSON"):
        read_journal(spark, name, schema=KINDS, brokers=brokers.address).collect()
    assert rows_of(by_columns(spark, brokers, name, "l long", onBad="skip", columns="l")) != []


def test_a_changed_byte_is_found_by_the_sum_and_no_damage_ends_the_jvm(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, tmp_path: Path
) -> None:
    name = make(journals, "lines/damaged", fragment_bytes=3000, labels=JSON_LABELS)
    write(journals, name, [b"".join(line(f'"s":"text {at}","l":{at}', at) for at in range(100))])
    write(journals, name, [line('"s":"the last"', 200)])
    wait_stored(journals, name, 3000)
    (part,) = frames_of(parts_of(brokers, name, KINDS))
    copy = copied(part, tmp_path, with_sums=True)
    assert read(spark, copy, KINDS).count() == 100
    good, rng = path_of(copy, 0).read_bytes(), Random(12)
    changed = bytearray(good)
    changed[good.index(b"text 5") + 5] ^= 1
    path_of(copy, 0).write_bytes(changed)
    with pytest.raises(Py4JJavaError, match="is damaged: its content has another sum than its name"):
        read(spark, copy, KINDS).collect()
    copy = copied(part, tmp_path, with_sums=False)
    errors: list[str] = []
    for _ in range(12):
        damaged = bytearray(good)
        for _ in range(rng.choice((1, 1, 40))):
            damaged[rng.randrange(len(damaged))] = rng.choice(b'\n"\\{},:0\x00\xff')
        path_of(copy, 0).write_bytes(damaged)
        try:
            read(spark, copy, KINDS).collect()
        except Py4JJavaError as error:
            errors.append(str(error))
    known = ("WorkerReader", "a line is cut off")  # nobody is there to read on, or the last line has no end
    assert len(errors) > 3
    assert all(any(why in error for why in known) for error in errors), errors
    path_of(copy, 0).write_bytes(good)
    assert read(spark, copy, KINDS).count() == 100


@given(st.lists(st.sampled_from(["row", "ack", "pending", "empty"]), min_size=1, max_size=12), st.integers(1, 200))
def test_spans_hold_the_rows_and_acknowledgements_between_them(kinds: list[str], grain: int) -> None:
    data, begins, ends, others = b"", list[int](), list[int](), list[tuple[int, int]]()
    for number, kind in enumerate(kinds):
        uuid = Uuid(ProducerId(number), Clock((1 << 44) + number), ACK_TXN if kind == "ack" else CONTINUE_TXN)
        value = {} if kind == "empty" else {"n": number}
        written = JsonLines().acknowledgement(uuid) if kind == "ack" else JsonLines().encode(value, uuid)
        if kind in ("row", "ack"):
            begins += [len(data)] if kind == "row" else []
            ends += [len(data) + len(written)] if kind == "row" else []
        else:  # which are not committed: an empty one is as long as an acknowledgement
            others.append((len(data), len(data) + len(written)))
        data += written
    piece = Piece(Offset(1000), data, np.array(begins, np.int64), np.array(ends, np.int64), np.empty(0, np.uint64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_places, "GRAIN_BYTES", grain)
        table = LinePlaces().decode([piece])
    spans = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    for begin, end in zip(begins, ends, strict=True):
        assert sum(first <= 1000 + begin and 1000 + end <= last for first, last in spans) == 1
    for begin, end in others:
        assert not any(first < 1000 + end and 1000 + begin < last for first, last in spans)
    assert spans == sorted(spans)


def test_what_was_found_ahead_is_for_that_chunk_alone() -> None:
    """A chunk which nobody asks for makes room in memory for another one, at the same place."""
    places, two = LinePlaces(), [b"{}\n" * 20, b'{"a":' + b"1" * 53 + b"}\n"]
    assert len(two[0]) == len(two[1])
    for _ in range(50):
        places.look_ahead(two[0][:30] + two[0][30:])  # made here, and gone when its lines are found
        places._threads.submit(str).result()
        places._threads.submit(str).result()
        other = two[1][:30] + two[1][30:]
        assert places.columns(other).ends.tolist() == [60]
        places.look_ahead(other)
        places.forget(other)
        places.look_ahead(other)
        assert places.columns(other).ends.tolist() == [60]
