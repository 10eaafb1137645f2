"""Sums of blocks: any range can be checked, and no byte of a block comes before the block was compared."""

import random
from itertools import pairwise

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.errors import DataDamaged
from penstock.plumbing.files.sums import BLOCK_BYTES, Comparing, Summing, decode_sums, encode_sums, subject_of

CONTENT = random.Random(5).randbytes(4 * BLOCK_BYTES + 777)
SUBJECT = subject_of("shop/a", b"digest")


def summed(content: bytes) -> Summing:
    summing = Summing()
    summing.add(content)
    return summing


@settings(max_examples=30, deadline=None)
@given(st.integers(0, len(CONTENT)), st.lists(st.integers(0, len(CONTENT)), max_size=5))
def test_sums_do_not_depend_on_how_the_bytes_come(size: int, cuts: list[int]) -> None:
    content, summing = CONTENT[:size], Summing()
    places = sorted({0, size, *(cut for cut in cuts if cut < size)})
    for begin, end in pairwise(places):
        summing.add(memoryview(content)[begin:end])
    assert summing.sums == summed(content).sums
    blocks = [content[at : at + BLOCK_BYTES] for at in range(0, size, BLOCK_BYTES)]
    assert [summing.crc(number) for number in range(len(blocks))] == [google_crc32c.value(each) for each in blocks]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, len(CONTENT)), st.integers(0, len(CONTENT)))
def test_a_cut_forgets_what_is_behind_it(size: int, cut: int) -> None:
    summing = summed(CONTENT[:size])
    kept = summing.cut(cut)
    assert kept <= min(cut, size)
    summing.add(CONTENT[kept : min(cut, size)])
    assert summing.sums == summed(CONTENT[: min(cut, size)]).sums


@settings(max_examples=50, deadline=None)
@given(st.integers(0, len(CONTENT) - 1), st.integers(1, len(CONTENT)), st.integers(1, 100_000))
def test_any_range_comes_back_compared(start: int, length: int, chunk: int) -> None:
    sums, end = summed(CONTENT).sums, min(start + length, len(CONTENT))
    first, behind = sums.widened(start, end)
    comparing = Comparing(sums, first, "shop/a")
    pieces = [
        bytes(piece)
        for at in range(first, behind, chunk)
        for piece in comparing.feed(CONTENT[at : min(at + chunk, behind)])
    ]
    comparing.finish(behind)
    assert b"".join(pieces) == CONTENT[first:behind]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, len(CONTENT) - 1), st.integers(0, 7), st.integers(1, 200_000))
def test_no_byte_of_a_damaged_block_comes(place: int, bit: int, chunk: int) -> None:
    damaged = bytearray(CONTENT)
    damaged[place] ^= 1 << bit
    comparing, got = Comparing(summed(CONTENT).sums, 0, "shop/a"), b""
    begin = place - place % BLOCK_BYTES
    error: DataDamaged | None = None
    try:
        for at in range(0, len(damaged), chunk):
            for piece in comparing.feed(bytes(damaged[at : at + chunk])):
                got += piece
    except DataDamaged as raised:
        error = raised
    assert error is not None
    assert (error.details["begin"], error.details["object"], got) == (begin, "shop/a", CONTENT[:begin])


def test_content_that_is_cut_short_or_too_long_is_damaged() -> None:
    sums = summed(CONTENT).sums
    comparing = Comparing(sums, 0, "shop/a")
    list(comparing.feed(CONTENT[:-1]))
    with pytest.raises(DataDamaged, match="cut short"):
        comparing.finish(len(CONTENT))
    with pytest.raises(DataDamaged, match="more than"):
        list(Comparing(sums, 0, "shop/a").feed(CONTENT + b"x"))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 20), st.integers(0, 7))
def test_a_file_of_sums_notices_its_own_damage(place: int, bit: int) -> None:
    data = bytearray(encode_sums(summed(CONTENT).sums, SUBJECT))
    assert decode_sums(bytes(data), SUBJECT) == summed(CONTENT).sums
    data[place % len(data)] ^= 1 << bit
    assert decode_sums(bytes(data), SUBJECT) is None


def test_sums_of_other_bytes_count_as_missing() -> None:
    data = encode_sums(summed(CONTENT).sums, SUBJECT)
    assert decode_sums(data, subject_of("shop/b", b"digest")) is None
    assert decode_sums(data, subject_of("shop/a", b"other")) is None
    assert decode_sums(data[:-5], SUBJECT) is None
    assert decode_sums(b"", SUBJECT) is None
