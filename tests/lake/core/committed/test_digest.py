from itertools import accumulate, pairwise

import pyarrow as pa
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.lake.core.committed.digest import digest_parts, digest_table, text_buffers

ROWS = st.lists(st.tuples(st.text(max_size=5), st.integers(-(2**63), 2**63 - 1)), max_size=8)


def table_of(rows: list[tuple[str, int]]) -> pa.Table:
    texts, numbers = [text for text, _ in rows], [number for _, number in rows]
    return pa.table({"text": pa.array(texts, pa.large_string()), "number": pa.array(numbers, pa.int64())})


def digest(rows: list[tuple[str, int]]) -> str:
    return digest_table("tag", table_of(rows), ["text", "number"])


def digest_by_hand(rows: list[tuple[str, int]]) -> str:
    texts = [text.encode() for text, _ in rows]
    if len(set(texts)) == 1:
        text = blake3(texts[0] + b"\1")
    else:
        ends = b"".join(end.to_bytes(4, "little") for end in accumulate(map(len, texts)))
        text = blake3(b"".join(texts) + ends + b"\0")
    number = blake3(b"".join(number.to_bytes(8, "little", signed=True) for _, number in rows))
    return blake3(b"tag\n%d\n" % len(rows) + text.digest() + number.digest()).hexdigest()


@settings(deadline=None)
@given(ROWS)
def test_the_digest_is_what_the_docstring_says(rows: list[tuple[str, int]]) -> None:
    assert digest(rows) == digest_by_hand(rows)


@settings(deadline=None)
@given(st.text(max_size=5), st.lists(st.integers(0, 9), max_size=8))
def test_a_column_of_one_value_is_digested_once(text: str, numbers: list[int]) -> None:
    rows = [(text, number) for number in numbers]

    assert digest(rows) == digest_by_hand(rows)


@settings(deadline=None)
@given(ROWS, ROWS)
def test_equal_digests_mean_equal_rows(one: list[tuple[str, int]], other: list[tuple[str, int]]) -> None:
    assert (digest(one) == digest(other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["a", "a"], ["a"]),
        (["a", "a"], ["aa"]),
        (["a", "a"], ["aa", ""]),
        (["", ""], ["", "", ""]),
        (["", ""], [""]),
        ([""], []),
        (["a", "b", "a"], ["a", "a", "a"]),
        (["ab", "c"], ["a", "bc"]),
        (["ab", "", "ab"], ["a", "ba", "b"]),
        (["abab", "ab", "", "ab"], ["ab", "ab", "ab", "ab"]),  # as many bytes, and the first is the last
        (["a\1"], ["a", "a"]),
        (["a", "\1\0\0\0\2\0\0\0\0"], ["a"]),
    ],
)
def test_values_which_look_alike_are_told_apart(one: list[str], other: list[str]) -> None:
    assert digest([(text, 1) for text in one]) != digest([(text, 1) for text in other])


@settings(deadline=None)
@given(ROWS, st.integers(0, 8), st.integers(0, 8))
def test_slices_and_chunks_do_not_matter(rows: list[tuple[str, int]], start: int, count: int) -> None:
    part = rows[start : start + count]
    chunked = pa.concat_tables([table_of(part[:1]), table_of(part[1:])])

    assert digest_table("tag", table_of(rows).slice(start, count), ["text", "number"]) == digest(part)
    assert digest_table("tag", chunked, ["text", "number"]) == digest(part)


@settings(deadline=None)
@given(ROWS, st.sets(st.integers(1, 7)))
def test_parts_have_the_digests_they_would_have_alone(rows: list[tuple[str, int]], cuts: set[int]) -> None:
    ends = [*sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    parts = [rows[start:end] for start, end in pairwise([0, *ends])]
    plain = table_of(rows)
    dictionary = plain.set_column(0, "text", plain.column("text").dictionary_encode())

    for table in (plain, dictionary):
        assert digest_parts("tag", table, ["text", "number"], ends) == [digest(part) for part in parts]


@settings(deadline=None)
@given(ROWS)
def test_the_width_of_offsets_does_not_matter(rows: list[tuple[str, int]]) -> None:
    narrow = table_of(rows).cast(pa.schema([("text", pa.string()), ("number", pa.int64())]))

    assert digest_table("tag", narrow, ["text", "number"]) == digest(rows)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["", "a", "b"]), max_size=8), st.permutations(["", "a", "b", "other"]))
def test_dictionaries_do_not_matter(texts: list[str], values: list[str]) -> None:
    numbers = pa.array([values.index(text) for text in texts], pa.int32())
    column = pa.DictionaryArray.from_arrays(numbers, pa.array(values))

    by_values = digest_table("tag", pa.table({"text": pa.array(texts, pa.string())}), ["text"])

    assert digest_table("tag", pa.table({"text": column}), ["text"]) == by_values
    assert (
        digest_table("tag", pa.table({"text": pa.array(texts, pa.string()).dictionary_encode()}), ["text"]) == by_values
    )


def test_text_moved_between_rows_and_another_tag_are_other_digests() -> None:
    assert digest([("ab", 1), ("c", 1)]) != digest([("a", 1), ("bc", 1)])
    assert digest_table("other", table_of([]), ["text"]) != digest_table("tag", table_of([]), ["text"])


def test_buffers_of_a_slice_begin_at_zero() -> None:
    buffers = text_buffers(pa.array(["ab", "", "cde"], pa.large_string()).slice(1))

    assert buffers.offsets.tolist() == [0, 0, 3]
    assert buffers.lengths.tolist() == [0, 3]
    assert buffers.data.tobytes() == b"cde"
