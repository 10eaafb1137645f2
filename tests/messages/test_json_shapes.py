"""Lines which are cut by their shape: what is taken is what Arrow's JSON reader makes of it, and the rest is left."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.messages.json_shapes import Lines, ShapeReader

SCHEMA = pa.schema([("a", pa.string()), ("b", pa.float64()), ("c", pa.int64()), ("d", pa.bool_()), ("é", pa.int32())])
OPTIONS = pj.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore")


def lines_of(*lines: bytes) -> Lines:
    ends = np.cumsum([len(line) for line in lines])
    begins = np.concatenate([[0], ends[:-1]])
    half = len(lines) // 2
    text = b"".join(lines)
    return Lines([(text, begins[:half], ends[:half]), (memoryview(text), begins[half:], ends[half:])])


def arrow(line: bytes) -> Any:
    """The row which Arrow reads; None if it reads none."""
    try:
        table = pj.read_json(pa.BufferReader(line), parse_options=OPTIONS)
    except pa.ArrowException:
        return None
    return table.select(SCHEMA.names).to_pylist()[0] if table.num_rows == 1 else None


def taken(*lines: bytes) -> dict[int, Any]:
    """The rows which were taken, by the numbers of their lines."""
    parts, left = ShapeReader(SCHEMA).read(lines_of(*lines))
    found: dict[int, Any] = {}
    for rows, table in parts:
        assert table.schema == SCHEMA
        table.validate(full=True)
        found |= dict(zip(rows.tolist(), table.to_pylist(), strict=True))
    assert sorted([*found, *left.tolist()]) == list(range(len(lines)))
    return found


LARGE = ["1e400", "-1e400", "1e39", "1e-400", "123456789012345678901234567890.5"]
GOOD = ["0", "-0", "1", "-1", "12.5", "-0.5", "0.0", "9223372036854775807", "2147483648", "null", "true", "false"]
BAD = ["01", "-", ".5", "5.", "1.2.3", "1-2", "--1", "+1", "1e3", "nan", "inf", "-01", "00", "", " 1", "nul", "True"]
NUMBERS = st.sampled_from([*GOOD, *BAD, *LARGE])
TEXTS = st.sampled_from(["", "x", "kind", ",", "}", '":', "{", ' "', "é", "null", "a:b,c", "\\n", "\\", '\\"', "\x01"])
VALUES = NUMBERS | TEXTS.map('"{}"'.format) | st.sampled_from(["[1,2]", '{"x":1}', '{"a":"b"}', '"open', 'x"'])
KEYS = st.sampled_from(["a", "b", "c", "d", "é", "other", ""])
FIELDS = st.lists(st.tuples(KEYS, VALUES), max_size=4)
JOINTS = st.sampled_from([",", ",", ",", ", ", "", ",,", "}"])
TAILS = st.sampled_from(["}\n", "}\n", "}\n", "}\r\n", " }\n", "\n", "}}\n", ",}\n"])


def line_of(fields: list[tuple[str, str]], joint: str, tail: str) -> bytes:
    return ("{" + joint.join(f'"{key}":{value}' for key, value in fields) + tail).encode()


@given(st.lists(st.builds(line_of, FIELDS, JOINTS, TAILS), min_size=1, max_size=6))
def test_what_is_taken_is_what_arrow_reads(lines: list[bytes]) -> None:
    for number, row in taken(*lines).items():
        assert row == arrow(lines[number]), lines[number]


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4))
def test_what_is_no_json_is_left(lines: list[bytes]) -> None:
    good = b'{"a":"x","c":1}\n'
    mixed = [good, *(line.replace(b"\n", b"") + b"\n" for line in lines), good]
    found = taken(*mixed)
    assert {0, len(mixed) - 1} <= found.keys()
    for number, row in found.items():
        assert row == arrow(mixed[number])


@given(
    st.lists(
        st.fixed_dictionaries(
            {"a": st.text(st.characters(exclude_characters='"\\', min_codepoint=32, codec="utf-8"))},
            optional={
                "b": st.none() | st.floats(-1e9, 1e9).map(lambda number: round(number, 3)),
                "c": st.none() | st.integers(-(2**63), 2**63 - 1),
                "d": st.none() | st.booleans(),
                "more": st.none() | st.integers() | st.booleans() | st.just("text"),
            },
        ),
        min_size=1,
        max_size=30,
    )
)
def test_rows_are_those_which_were_written(rows: list[dict[str, Any]]) -> None:
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for row in rows]
    for number, row in taken(*lines).items():
        assert row == {name: rows[number].get(name) for name in SCHEMA.names}


def test_a_few_shapes_are_taken_and_more_are_left() -> None:
    keys = ["b", "c", "é", "x", "y", "z"]
    lines = [f'{{"{key}":{number}}}\n'.encode() for number in range(3) for key in keys]
    assert sorted(taken(*lines)) == [number for number in range(len(lines)) if number % 6 < 4]


@pytest.mark.parametrize("number", LARGE)
@pytest.mark.parametrize("column", ["b", "é"])
def test_large_numbers_are_those_of_arrow(column: str, number: str) -> None:
    line = f'{{"{column}":{number}}}\n'.encode()
    assert taken(line).get(0) in (arrow(line), None)


def test_nulls_and_words_are_no_other_shape() -> None:
    lines = [b'{"b":%b,"d":%b}\n' % pair for pair in [(b"1.5", b"true"), (b"null", b"null"), (b"2", b"false")]]
    assert [row["b"] for row in taken(*lines).values()] == [1.5, None, 2.0]
    assert [row["d"] for row in taken(*lines).values()] == [True, None, False]


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.list_(pa.int64()), pa.decimal128(9, 2), pa.uint64()])
def test_other_types_are_left_to_arrow(kind: Any) -> None:
    reader = ShapeReader(pa.schema([("a", kind)]))
    assert not reader.is_able
    assert reader.read(lines_of(b'{"a":"x"}\n'))[1].tolist() == [0]


def test_lines_are_picked() -> None:
    lines = lines_of(b"one\n", b"two\n", b"three\n")
    picked = [lines.pick(np.array(rows)) for rows in ([0, 2], [1], [2], [0, 1, 2])]
    assert [(len(each), each.size, each.first()) for each in picked] == [
        (2, 10, b"one\n"),
        (1, 4, b"two\n"),
        (1, 6, b"three\n"),
        (3, 14, b"one\n"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":"x"1,"c":1}\n',
        b'{"a":"x" ,"c":1}\n',
        b'{"a":"x","c":1 }\n',
        b'{"a":"x","c":}\n',
        b'{"a":"x","c":1}}\n',
        b'{"a":"x","c":1,2}\n',
        b'{"a":"x","c":1.5}\n',  # JSON, but no whole number
        b'{"b":"x","c":1}\n',  # JSON, but a text where a number belongs
        b'{"a":"x";"c":1}\n',
        b'["a":"x","c":1}\n',
        b'{"a":"x","c":1\n',
        b'{"a":"x\\u0041","c":1}\n',
    ],
)
def test_almost_of_the_shape_is_left(line: bytes) -> None:
    good = b'{"a":"x","c":1}\n'
    found = taken(good, line, good)
    assert 1 not in found
    assert found.keys() <= {0, 2}
