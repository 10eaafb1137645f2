from array import array

import pytest

from penstock.kernel.errors import InvalidArgument, LimitExceeded
from penstock.plumbing.objects.arguments import RANGES_MAX, check_after, check_ranges, cut_ranges, view_of
from penstock.plumbing.objects.port import Buffer


def test_too_many_ranges_are_refused() -> None:
    check_ranges("a", [(0, 1)] * RANGES_MAX)
    with pytest.raises(LimitExceeded):
        check_ranges("a", [(0, 1)] * (RANGES_MAX + 1))


def test_ranges_are_cut_where_the_object_ends() -> None:
    assert cut_ranges("a", 10, [(0, 5), (5, 50), (10, 11)]) == [(0, 5), (5, 10), (10, 10)]
    with pytest.raises(InvalidArgument, match="has 10 bytes"):
        cut_ranges("a", 10, [(0, 5), (11, 12)])


@pytest.mark.parametrize("after", ["", "a", "a/b", "a/b/"])
def test_after_is_a_key_or_a_folder(after: str) -> None:
    assert check_after(after) == after


def test_any_contiguous_buffer_is_bytes() -> None:
    numbers = array("I", [1, 2])
    buffers: list[Buffer] = [b"ab", bytearray(b"ab"), memoryview(b"xaby")[1:3], memoryview(b""), memoryview(numbers)]
    for buffer in buffers:
        assert bytes(view_of(buffer)) == bytes(buffer)
    with pytest.raises(InvalidArgument, match="contiguous"):
        view_of(memoryview(b"abcd")[::2])
