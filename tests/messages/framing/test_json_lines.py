import msgspec
import pytest

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Clock
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.uuid import ProducerId, Uuid

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
        with pytest.raises(InvalidArgument, match="_meta is ours"):
            JsonLines().encode(value, UUID)


def test_a_line_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="amount"):
        JsonLines(Transfer).decode(b'{"other":1}')
