"""The loops over lines: they never read what is not there, wherever a chunk ends, and round numbers as they should."""

import json
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.messages.guarded import guarded

from penstock.kernel.ids import Clock
from penstock.messages.columns import json_columns
from penstock.messages.framing.compiled import address
from penstock.messages.framing.json_kernels import count_lines
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.json_shapes import Lines, ShapeReader
from penstock.messages.uuid import ProducerId, Uuid

UUID = Uuid(ProducerId(7), Clock(1 << 60), 1)
SCHEMA = pa.schema([("text", pa.string()), ("number", pa.float64()), ("n", pa.int64()), ("is", pa.bool_())])
LINE = JsonLines().encode({"text": "some text", "number": 1.25, "n": -7, "is": True, "more": None}, UUID)


def rows_of(data: Any, schema: Any = SCHEMA) -> dict[int, Any]:
    """The rows which were cut, by the numbers of their lines."""
    columns = json_columns(data, JsonLines())
    parts, _ = ShapeReader(schema).read(Lines([(data, columns.begins, columns.ends)]))
    return {row: each for rows, table in parts for row, each in zip(rows.tolist(), table.to_pylist(), strict=True)}


@given(st.lists(st.sampled_from([b"\n", b"\n", b"\x0b", b"\x09", b"\x8a", b"\x00", b"\xff", b"x" * 7])).map(b"".join))
def test_newlines_are_counted(content: bytes) -> None:
    with guarded(content) as view:
        assert count_lines(address(view), len(view)) == content.count(b"\n")


@pytest.mark.parametrize("size", [254 * 8, 255 * 8, 256 * 8 + 7, 600 * 8])
def test_as_many_newlines_as_bytes_are_counted(size: int) -> None:
    content = b"\n" * size
    assert count_lines(address(content), size) == size


@pytest.mark.parametrize("cut", range(len(LINE) - 1))
def test_a_chunk_may_end_anywhere(cut: int) -> None:
    wanted = {0: {"text": "some text", "number": 1.25, "n": -7, "is": True}}
    with guarded(LINE + LINE[:cut]) as view:
        assert rows_of(view) == wanted
    with guarded(LINE + LINE[:cut] + b"\n") as view:  # a line which ends too early
        assert rows_of(view) == wanted


@given(st.lists(st.integers(0, 255).map(lambda byte: bytes([byte])), max_size=3), st.integers(0, len(LINE) - 2))
def test_any_bytes_may_stand_anywhere(others: list[bytes], at: int) -> None:
    other = b"".join(others).replace(b"\n", b"")
    with guarded(LINE[:at] + other + LINE[at + len(other) :]) as view, suppress(UnicodeDecodeError):
        rows_of(view)  # a text which is no UTF-8 is given out as it is, as Arrow's reader does


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1))
def test_numbers_are_rounded_as_python_does(number: float) -> None:
    line = json.dumps({"number": number}).replace(" ", "").encode() + b"\n"
    (row,) = rows_of(line, pa.schema([("number", pa.float64())])).values()
    assert row["number"] == float(number)
    assert np.signbit(row["number"]) == np.signbit(float(number))


@given(st.integers(0, 10**24), st.integers(0, 24))
def test_decimals_are_rounded_as_python_does(digits: int, behind: int) -> None:
    text = str(digits).rjust(behind + 1, "0")
    text = f"{text[: len(text) - behind]}.{text[len(text) - behind :]}" if behind else text
    (row,) = rows_of(b'{"number":%b}\n' % text.encode(), pa.schema([("number", pa.float64())])).values()
    assert row["number"] == float(text)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_smaller_floats_are_rounded_once(number: float) -> None:
    schema = pa.schema([("number", pa.float32())])
    (row,) = rows_of(b'{"number":%b}\n' % repr(number).encode(), schema).values()
    assert row["number"] == number
