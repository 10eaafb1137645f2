import hashlib

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.lake.committed.digest import digest_table, text_buffers

ROWS = st.lists(st.tuples(st.text(max_size=5), st.integers(-(2**63), 2**63 - 1)), max_size=8)


def table_of(rows: list[tuple[str, int]]) -> pa.Table:
    texts, numbers = [text for text, _ in rows], [number for _, number in rows]
    return pa.table({"text": pa.array(texts, pa.large_string()), "number": pa.array(numbers, pa.int64())})


def digest(rows: list[tuple[str, int]]) -> str:
    return digest_table("tag", table_of(rows), ["text", "number"])


@settings(deadline=None)
@given(ROWS)
def test_the_digest_is_what_the_docstring_says(rows: list[tuple[str, int]]) -> None:
    texts = [text.encode() for text, _ in rows]
    expected = b"tag\n%d\n" % len(rows)
    expected += b"".join(len(text).to_bytes(4, "little") for text in texts) + b"".join(texts)
    expected += b"".join(number.to_bytes(8, "little", signed=True) for _, number in rows)

    assert digest(rows) == hashlib.sha256(expected).hexdigest()


@settings(deadline=None)
@given(ROWS, ROWS)
def test_equal_digests_mean_equal_rows(one: list[tuple[str, int]], other: list[tuple[str, int]]) -> None:
    assert (digest(one) == digest(other)) == (one == other)


@settings(deadline=None)
@given(ROWS, st.integers(0, 8), st.integers(0, 8))
def test_slices_and_chunks_do_not_matter(rows: list[tuple[str, int]], start: int, count: int) -> None:
    part = rows[start : start + count]
    chunked = pa.concat_tables([table_of(part[:1]), table_of(part[1:])])

    assert digest_table("tag", table_of(rows).slice(start, count), ["text", "number"]) == digest(part)
    assert digest_table("tag", chunked, ["text", "number"]) == digest(part)


@settings(deadline=None)
@given(ROWS)
def test_the_width_of_offsets_does_not_matter(rows: list[tuple[str, int]]) -> None:
    narrow = table_of(rows).cast(pa.schema([("text", pa.string()), ("number", pa.int64())]))

    assert digest_table("tag", narrow, ["text", "number"]) == digest(rows)


def test_text_moved_between_rows_and_another_tag_are_other_digests() -> None:
    assert digest([("ab", 1), ("c", 1)]) != digest([("a", 1), ("bc", 1)])
    assert digest_table("other", table_of([]), ["text"]) != digest_table("tag", table_of([]), ["text"])


def test_buffers_of_a_slice_begin_at_zero() -> None:
    buffers = text_buffers(pa.array(["ab", "", "cde"], pa.large_string()).slice(1))

    assert buffers.offsets.tolist() == [0, 0, 3]
    assert buffers.lengths.tolist() == [0, 3]
    assert buffers.data.tobytes() == b"cde"
