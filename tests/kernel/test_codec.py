"""Records to bytes and back; whatever the bytes are, only MalformedFrame is raised."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.codec import Codec
from penstock.kernel.errors import FormatTooNew, MalformedFrame


class Put(msgspec.Struct, tag="put", frozen=True):
    key: str
    value: bytes


class Drop(msgspec.Struct, tag="drop", frozen=True):
    keys: tuple[str, ...]


CODEC = Codec[Put | Drop](Put | Drop)

records = st.one_of(st.builds(Put, st.text(), st.binary()), st.builds(Drop, st.lists(st.text(), max_size=5).map(tuple)))


@given(records)
def test_a_record_comes_back_as_it_was(record: Put | Drop) -> None:
    assert CODEC.decode(CODEC.encode(record)) == record
    buffer = bytearray(b"header")
    CODEC.encode_into(record, buffer, 6)
    assert CODEC.decode(memoryview(buffer)[6:]) == record


@given(st.binary())
def test_random_bytes_are_a_record_or_malformed(data: bytes) -> None:
    try:
        record = CODEC.decode(data)
    except MalformedFrame:
        return
    assert isinstance(record, Put | Drop)


@given(records, st.data())
def test_a_damaged_record_is_a_record_or_malformed(record: Put | Drop, data: st.DataObject) -> None:
    wire = bytearray(CODEC.encode(record))
    wire[data.draw(st.integers(0, len(wire) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(MalformedFrame):
        assert isinstance(CODEC.decode(wire), Put | Drop)


def test_deep_nesting_is_malformed_not_a_crash() -> None:
    with pytest.raises(MalformedFrame):
        Codec[list[object]](list).decode(b"\x91" * 100_000)


class Batch(msgspec.Struct, tag="batch", frozen=True, array_like=True):
    first: int
    records: tuple[Put | Drop, ...]


class Again(msgspec.Struct, tag="again", frozen=True, array_like=True):
    """Nothing but a second member of a union."""


@pytest.mark.parametrize(
    ("type_", "value", "kind"),
    [
        (Put | Drop, {"type": "level", "n": 2}, "level"),
        (list[Put | Drop], [{"type": "drop", "keys": []}, {"type": "level"}], "level"),
        (tuple[int, Put | Drop], (7, {"type": "level"}), "level"),
        (Batch | Again, ("batch", 1, [{"type": "level"}]), "level"),
        (Batch | Again, ("level-2", 1), "level-2"),
    ],
)
def test_a_record_of_an_unknown_kind_is_named(type_: object, value: object, kind: str) -> None:
    with pytest.raises(FormatTooNew, match=f"^the log has a record of the unknown kind '{kind}'"):
        Codec[object](type_).decode_known(msgspec.msgpack.encode(value), "the log")


@pytest.mark.parametrize("value", [{"type": "put", "key": 5}, {}, [], 7, {"type": None}, {"type": "drop", "keys": [1]}])
def test_what_is_no_unknown_kind_is_malformed(value: object) -> None:
    with pytest.raises(MalformedFrame):
        CODEC.decode_known(msgspec.msgpack.encode(value), "the log")


@given(st.binary())
def test_random_bytes_are_never_something_else(data: bytes) -> None:
    with contextlib.suppress(MalformedFrame, FormatTooNew):
        assert isinstance(CODEC.decode_known(data, "the log"), Put | Drop)
