from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.http.conditions import ByteRange, http_date, parse_range, read_verdict

NOW = datetime(2026, 11, 15, 12, 0, 0, 500, tzinfo=UTC)
BEFORE, AFTER = http_date(NOW - timedelta(hours=1)), http_date(NOW + timedelta(hours=1))


@pytest.mark.parametrize(
    ("header", "part"),
    [
        ("bytes=0-0", b"0"),
        ("bytes=2-4", b"234"),
        ("bytes=7-", b"789"),
        ("bytes=-3", b"789"),
        ("bytes=-30", b"0123456789"),
        ("bytes=8-100", b"89"),
    ],
)
def test_a_range_is_a_part(header: str, part: bytes) -> None:
    found = parse_range(header)
    assert found is not None
    start, end = found.within(10)
    assert b"0123456789"[start:end] == part


@pytest.mark.parametrize("header", ["", "bytes=", "bytes=-", "bytes=5-2", "lines=1-2", "bytes=1-2,4-5", "bytes=a-b"])
def test_what_is_no_range_is_ignored(header: str) -> None:
    assert parse_range(header) is None


@pytest.mark.parametrize(("header", "size"), [("bytes=10-", 10), ("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-1", 0)])
def test_a_range_outside_is_refused(header: str, size: int) -> None:
    found = parse_range(header)
    assert found is not None
    with pytest.raises(InvalidArgument, match="outside"):
        found.within(size)


@given(st.text(max_size=30) | st.from_regex(r"bytes=[0-9]{0,25}-[0-9]{0,25}", fullmatch=True), st.integers(0, 100))
def test_any_range_stays_within(header: str, size: int) -> None:
    found = parse_range(header)
    if isinstance(found, ByteRange):
        try:
            start, end = found.within(size)
        except InvalidArgument:
            return
        assert 0 <= start < end <= size


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"if-match": '"e"'}, 200),
        ({"if-match": "*"}, 200),
        ({"if-match": '"x", "e"'}, 200),
        ({"if-match": '"x"'}, 412),
        ({"if-none-match": 'W/"e"'}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"x"'}, 200),
        ({"if-modified-since": BEFORE}, 200),
        ({"if-modified-since": http_date(NOW)}, 304),
        ({"if-modified-since": AFTER}, 304),
        ({"if-unmodified-since": BEFORE}, 412),
        ({"if-unmodified-since": AFTER}, 200),
        ({"if-unmodified-since": "yesterday"}, 200),
        ({"if-match": '"e"', "if-unmodified-since": BEFORE}, 200),
        ({"if-none-match": '"x"', "if-modified-since": AFTER}, 200),
    ],
)
def test_conditions_of_a_read(headers: dict[str, str], status: int) -> None:
    assert read_verdict(headers, "e", NOW) == status
    assert read_verdict({f"source-{name}": value for name, value in headers.items()}, "e", NOW, "source-") == status
