"""The encoding, against published examples and against anything."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import MalformedFrame
from penstock.keyspace.shell.etcd import protobuf
from penstock.keyspace.shell.etcd.protobuf import ProtobufMessage, encode

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def test_examples() -> None:
    assert doctest.testmod(protobuf).failed == 0


@pytest.mark.parametrize(
    ("fields", "data"),
    [  # from the description of the encoding, https://protobuf.dev/programming-guides/encoding/
        ([(1, 150)], "089601"),
        ([(2, b"testing")], "120774657374696e67"),
        ([(3, encode([(1, 150)]))], "1a03089601"),
        ([(1, -2)], "08feffffffffffffffff01"),
        ([(1, 0), (2, b"")], ""),
        ([(64, b"x")], "82040178"),
    ],
)
def test_published_examples(fields: list[tuple[int, int | bytes]], data: str) -> None:
    assert encode(fields).hex() == data


@given(st.integers(1, 100), INT64, st.lists(st.binary(max_size=300), max_size=5))
def test_what_was_written_is_read(field: int, number: int, values: list[bytes]) -> None:
    message = ProtobufMessage(encode([(field, number), *((field + 1, value) for value in values)]))
    assert message.number(field) == number
    assert message.all_data(field + 1) == [value for value in values if value]
    assert message.has(field) is (number != 0)


def test_unknown_fields_of_every_kind_are_passed_over() -> None:
    known = encode([(1, 7)])
    unknown = bytes.fromhex("99 06 01020304050607089d 06 010203049206 01 ff")
    assert ProtobufMessage(unknown + known + unknown).number(1) == 7


def test_the_last_of_several_counts() -> None:
    assert ProtobufMessage(encode([(1, 1), (1, 2)])).number(1) == 2


@pytest.mark.parametrize("data", ["08", "0a05 61", "0b", "0c", "08" + "ff" * 11, "9d 06 0102"])
def test_what_is_no_message_is_refused(data: str) -> None:
    with pytest.raises(MalformedFrame):
        ProtobufMessage(bytes.fromhex(data))


def test_a_field_of_another_kind_is_refused() -> None:
    message = ProtobufMessage(encode([(1, 7), (2, b"x")]))
    for read in (lambda: message.data(1), lambda: message.all_data(1), lambda: message.number(2)):
        with pytest.raises(MalformedFrame):
            read()


@given(st.binary(max_size=60))
def test_anything_is_a_message_or_refused(data: bytes) -> None:
    try:
        message = ProtobufMessage(data)
        message.messages(1)
        message.number(2)
    except MalformedFrame:
        pass
