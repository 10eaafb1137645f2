from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Clock
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.uuid import ProducerId, Uuid, UuidRun

UUID = Uuid(ProducerId(0x080607050309), Clock(0x1234567812345678), 2)
TEXT = "81234567-4567-1123-a002-080607050309"


class Transfer(msgspec.Struct, frozen=True):
    amount: int


def test_the_uuid_stands_first() -> None:
    assert JsonLines().encode({"a": 1}, UUID) == f'{{"_meta":{{"uuid":"{TEXT}"}},"a":1}}\n'.encode()
    assert JsonLines().encode({}, UUID) == JsonLines().acknowledgement(UUID)


def test_a_type_of_ones_own() -> None:
    lines = JsonLines(Transfer)
    assert lines.decode(lines.encode(Transfer(5), UUID)) == Transfer(5)


@pytest.mark.parametrize(
    "line",
    [
        f'{{"a":1,"_meta":{{"uuid":"{TEXT}","more":[]}}}}',
        f'{{ "_meta" : {{"uuid": "{TEXT}"}}, "a": {{"_meta": 1}} }}',
    ],
)
def test_uuids_which_others_wrote_are_found(line: str) -> None:
    assert JsonLines().uuid(line.encode()) == UUID


@pytest.mark.parametrize("line", ["{}", '{"a":1}', '{"_meta":{}}', '{"_meta":null}', '{"_meta":{"uuid":null}}'])
def test_objects_without_a_uuid_have_none(line: str) -> None:
    assert JsonLines().uuid(line.encode()) is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nothing",
        b"[1]",
        b'{"_meta":5}',
        b'{"_meta":{"uuid":"short"}}',
        b'{"_meta":{"uuid":"81234567-4567-4123-a002-080607050309"}}',
        b"\xff{}",
        b'{"a":' * 100,
    ],
)
def test_lines_which_are_none_are_refused(line: bytes) -> None:
    with pytest.raises(InvalidArgument):
        JsonLines().uuid(line)


def test_values_which_are_no_objects_or_use_our_key_are_refused() -> None:
    for value in ([1], 5, {"_meta": {"uuid": "mine"}}):
        with pytest.raises(InvalidArgument, match="a JSON message is an object"):
            JsonLines().encode(value, UUID)


def test_a_line_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="amount"):
        JsonLines(Transfer).decode(b'{"other":1}')


RAW = st.sampled_from(
    [b'{"a":1}', b"{}", b"[1]", b'{"a":\n{"b":1}}', b"5\n{}", b'{"_meta":{"uuid":"x"}}', b'{"x":"\\"_meta\\""}']
)
VALUES = st.one_of(
    st.dictionaries(st.text(max_size=3), st.one_of(st.text(max_size=5), st.integers(), st.none()), max_size=3),
    RAW.map(msgspec.Raw),
    st.sampled_from([5, [1], {"_meta": {"uuid": "mine"}}, {"_meta": {}}, {"_meta": 5}, {"n": object()}]),
)


@given(st.lists(VALUES, max_size=6), st.sampled_from([1 << 36, (1 << 36) - 200, (0x1EE << 52) + 77]), st.booleans())
def test_frames_of_many_values_are_those_of_each(values: list[Any], first: int, is_alone: bool) -> None:
    lines, run = JsonLines(), UuidRun(ProducerId(7), Clock(first), len(values), 1)
    try:
        one_by_one = b"".join([lines.encode(value, uuid) for value, uuid in zip(values, run, strict=True)])
        given = [lines.prepare(value) for value in values] if is_alone else lines.prepare_all(values)
    except InvalidArgument:
        with pytest.raises(InvalidArgument):
            lines.prepare_all(values)
    else:
        assert lines.frames(given, run) == one_by_one


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 1 << 64), st.integers(0, 3)), min_size=1, max_size=8))
def test_uuids_in_rows_are_those_of_each_frame(uuids: list[tuple[int, int, int]]) -> None:
    each = [Uuid(ProducerId(producer), Clock(clock % (1 << 64)), flags) for producer, clock, flags in uuids]
    lines = JsonLines()
    frames = [lines.encode({"n": 1}, uuid).rstrip(b"\n") for uuid in each]
    rows = lines.uuids(frames)
    assert rows is not None
    assert [Uuid(row.producer, clock, row.flags) for row in rows for clock in row.clocks] == each


@pytest.mark.parametrize(
    "odd", [b'{"n":1}', b'{"_meta":{"uuid":"zzzzzzzz-4567-1123-a002-080607050309"},"n":1}', b"", b"x" * 60,
            b'{"_meta":{"uuid":"8123 567-4567-1123-a002-080607050309"},"n":1}',
            b'{"_meta":{"uuid":"81234567-4567-1123-a002-080607050309x"},"n":1}']
)  # fmt: skip
def test_a_frame_that_is_odd_is_looked_at_by_itself(odd: bytes) -> None:
    lines = JsonLines()
    assert lines.uuids([lines.encode({"n": 1}, UUID).rstrip(b"\n"), odd]) is None
