"""Fragments: Gazette's names, to the character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.journals.records.fragment import EMPTY_SUM, OFFSET_MAX, CompressionCodec, Fragment
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Offset

GAZETTES_OWN = Fragment("a/journal", Offset(1234567890), OFFSET_MAX, bytes(range(1, 21)), CompressionCodec.GZIP)


def test_gazettes_vector() -> None:
    name = "00000000499602d2-7fffffffffffffff-0102030405060708090a0b0c0d0e0f1011121314.gz"
    assert GAZETTES_OWN.content_name == name
    assert GAZETTES_OWN.content_path == f"a/journal/{name}"
    assert Fragment.parse_path("a/journal", f"a/journal/{name}") == GAZETTES_OWN


def test_a_postfix_stands_between_journal_and_name() -> None:
    path = f"a/journal/date=2026-11-15/hour=12/{GAZETTES_OWN.content_name}"
    assert Fragment.parse_path("a/journal", path).path_postfix == "date=2026-11-15/hour=12"
    assert Fragment.parse_path("a/journal", path).content_path == path


@pytest.mark.parametrize(
    ("codec", "extension"),
    [("NONE", ".raw"), ("GZIP", ".gz"), ("ZSTANDARD", ".zst"), ("SNAPPY", ".sz"), ("GZIP_OFFLOAD_DECOMPRESSION", "")],
)
def test_extensions(codec: str, extension: str) -> None:
    assert CompressionCodec[codec].extension == extension
    assert CompressionCodec.of_extension(extension) is CompressionCodec[codec]


def test_the_older_extension_of_offloaded_gzip_is_read_too() -> None:
    assert CompressionCodec.of_extension(".gzod") is CompressionCodec.GZIP_OFFLOAD_DECOMPRESSION


@given(
    st.integers(0, OFFSET_MAX - 1),
    st.integers(1, 1 << 34),
    st.binary(min_size=20, max_size=20),
    st.sampled_from(CompressionCodec),
)
def test_names_read_back(begin: int, length: int, sum_: bytes, codec: CompressionCodec) -> None:
    fragment = Fragment("some/journal", Offset(begin), Offset(min(begin + length, OFFSET_MAX)), sum_, codec)
    assert Fragment.parse_name("some/journal", fragment.content_name) == fragment


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x",
        "0000000000000002-0000000000000001-" + "0" * 40 + ".raw",
        "0000000000000001-0000000000000001-" + "1" * 40 + ".raw",
        "0000000000000000-8000000000000000-" + "1" * 40 + ".raw",
        "0000000000000001-0000000000000002-" + "0" * 39 + ".raw",
        "0000000000000001-0000000000000002-" + "0" * 40 + ".zip",
        "0000000000000001-0000000000000002-" + "G" * 40 + ".raw",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        Fragment.parse_name("a/journal", name)


def test_bad_fragments_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="SHA-1 has 20"):
        Fragment("a/journal", Offset(0), Offset(1), b"short").validate()
    with pytest.raises(InvalidArgument, match="not below journal"):
        Fragment.parse_path("a/journal", "b/journal/x")
    assert Fragment("a/journal").sum == EMPTY_SUM
    assert Fragment("a/journal", Offset(2), Offset(5)).covers(Offset(4))
    assert not Fragment("a/journal", Offset(2), Offset(5)).covers(Offset(5))
