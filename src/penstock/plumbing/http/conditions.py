"""Conditions: the Range and If-… headers of reads, as RFC 9110 has them and S3 uses them. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

import msgspec

from penstock.kernel.errors import InvalidArgument

__all__ = ["ByteRange", "etags_of", "http_date", "parse_range", "read_verdict"]

_RANGE = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})", re.ASCII)


class ByteRange(msgspec.Struct, frozen=True):
    """A wished part of an object, before its size is known. A negative start counts from the end."""

    start: int
    end: int | None = None  # the first byte after it

    def within(self, size: int) -> tuple[int, int]:
        """Resolve it to [start, end) of an object of this size; an error with status 416 if it lies outside."""
        start = max(size + self.start, 0) if self.start < 0 else self.start
        end = size if self.end is None else min(self.end, size)
        if start >= end:
            raise InvalidArgument(f"the range is outside the object's {size} bytes", status=416, size=size)
        return start, end


def parse_range(header: str) -> ByteRange | None:
    """A Range header. None for what a server must ignore: no header, another unit, several ranges, nonsense.

    >>> parse_range("bytes=2-5"), parse_range("bytes=-3"), parse_range("bytes=5-2")
    (ByteRange(start=2, end=6), ByteRange(start=-3, end=None), None)
    """
    found = _RANGE.fullmatch(header.strip())
    if found is None or found[0] == "bytes=-":
        return None
    first, last = found[1], found[2]
    if not first:
        # The last 0 bytes are no range that could be answered: [0, 0) of any object is outside it.
        return ByteRange(-int(last)) if int(last) else ByteRange(0, 0)
    if not last:
        return ByteRange(int(first))
    return ByteRange(int(first), int(last) + 1) if int(last) >= int(first) else None


def etags_of(header: str) -> set[str]:
    """The ETags of an If-Match or If-None-Match header, without quotes and weakness; `*` stays.

    >>> sorted(etags_of('"a", W/"b"'))
    ['a', 'b']
    """
    return {part.strip().removeprefix("W/").strip('"') for part in header.split(",") if part.strip()}


def http_date(moment: datetime) -> str:
    return format_datetime(moment.astimezone(UTC), usegmt=True)


def read_verdict(headers: Mapping[str, str], etag: str, modified: datetime, prefix: str = "") -> int:
    """Return 200 to continue, 304 or 412, in RFC 9110's order: an ETag header goes before the date of its kind.

    `prefix` precedes each name: S3 has the same four for the source of a copy.
    """
    second = modified.replace(microsecond=0)
    match = headers.get(f"{prefix}if-match")
    none_match = headers.get(f"{prefix}if-none-match")
    if match is not None:
        if not etags_of(match) & {etag, "*"}:
            return 412
    elif (limit := _date(headers.get(f"{prefix}if-unmodified-since"))) is not None and second > limit:
        return 412
    if none_match is not None:
        return 304 if etags_of(none_match) & {etag, "*"} else 200
    since = _date(headers.get(f"{prefix}if-modified-since"))
    return 304 if since is not None and second <= since else 200


def _date(text: str | None) -> datetime | None:
    """Parse a date in a header; None if it is missing or is no date, which RFC 9110 wants ignored."""
    if not text:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
