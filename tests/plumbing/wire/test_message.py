import array
from typing import Any

import pytest

from penstock.kernel.errors import InvalidArgument, PreconditionFailed, Written, error_from_record
from penstock.plumbing.wire.message import ERROR_BYTES_MAX, ERROR_CODEC, as_body, as_bulk, encode_error


def test_a_body_is_bytes_of_any_kind_and_nothing_else() -> None:
    assert [as_body(given) for given in (b"ab", bytearray(b"ab"), memoryview(b"ab"))] == [b"ab"] * 3
    for wrong in ("ab", 5, None, [1]):
        with pytest.raises(InvalidArgument, match=type(wrong).__name__):
            as_body(wrong)


def test_bulk_is_any_contiguous_buffer_counted_in_bytes() -> None:
    numbers = array.array("i", [1, 2, 3])
    assert len(as_bulk(numbers)) == 3 * numbers.itemsize
    assert len(as_bulk(memoryview(numbers))) == 3 * numbers.itemsize
    assert as_bulk(b"ab") == b"ab"
    for wrong in ("ab", 5, memoryview(b"abcd")[::2]):
        with pytest.raises(InvalidArgument):
            as_bulk(wrong)


def test_an_error_comes_back_as_it_was() -> None:
    error = PreconditionFailed("register owner is b", next_step="read it again", written=Written.UNKNOWN, actual="b")
    back = error_from_record(ERROR_CODEC.decode(encode_error(error)))
    assert type(back) is PreconditionFailed
    assert back.to_record() == error.to_record()


@pytest.mark.parametrize(
    "details", [{"what": object()}, {"what": "x" * ERROR_BYTES_MAX}, {"what": 2**70}, {"what": "\ud800"}]
)
def test_details_which_do_not_travel_are_left_behind(details: dict[str, Any]) -> None:
    body = encode_error(PreconditionFailed("no", **details))
    assert len(body) <= ERROR_BYTES_MAX
    back = error_from_record(ERROR_CODEC.decode(body))
    assert (type(back), back.message, back.details) == (PreconditionFailed, "no", {})


@pytest.mark.parametrize("message", ["ä" * 10_000, "\ud800", "\U0001f600" * 3000])
def test_a_message_which_does_not_travel_is_cut(message: str) -> None:
    body = encode_error(PreconditionFailed(message, next_step="x" * 10_000))
    assert len(body) <= ERROR_BYTES_MAX
    assert error_from_record(ERROR_CODEC.decode(body)).message
