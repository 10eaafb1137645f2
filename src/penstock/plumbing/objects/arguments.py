"""Arguments every store checks in the same way, before anything is asked of a disk or a server."""

from collections.abc import Collection, Mapping, Sequence
from urllib.parse import urlsplit

from penstock.kernel.errors import InvalidArgument, LimitExceeded
from penstock.plumbing.objects.keys import check_key
from penstock.plumbing.objects.port import GET_BYTES_MAX, MANY_MAX, PUT_BYTES_MAX, Buffer, ETag

__all__ = [
    "EXPIRES_S_MAX",
    "RANGES_MAX",
    "check_after",
    "check_condition",
    "check_expires",
    "check_get_size",
    "check_many",
    "check_range",
    "check_ranges",
    "check_start",
    "cut_ranges",
    "put_view_of",
    "put_views_of",
    "shown_url",
    "view_of",
]

EXPIRES_S_MAX = 7 * 24 * 3600  # the longest S3 signs for
RANGES_MAX = 10_000


def check_condition(*, if_absent: bool, if_match: ETag | None) -> None:
    if if_absent and if_match is not None:
        raise InvalidArgument("if_absent and if_match cannot both hold")
    if if_match == "":
        raise InvalidArgument("if_match is empty; for 'no object yet' there is if_absent")


def view_of(data: Buffer) -> memoryview:
    """The bytes of a buffer, whatever its items are."""
    view = memoryview(data)
    if not view.c_contiguous:
        raise InvalidArgument("a buffer to write must be contiguous; copy it with bytes() first")
    return view.cast("B") if view.nbytes else memoryview(b"")


def put_view_of(data: Buffer) -> memoryview:
    """The bytes of a buffer, if they are not too many for one put."""
    view = view_of(data)
    if view.nbytes > PUT_BYTES_MAX:
        raise LimitExceeded(f"{view.nbytes} bytes are more than the {PUT_BYTES_MAX} of one put", next_step="use writer")
    return view


def put_views_of(objects: Mapping[str, Buffer]) -> dict[str, memoryview]:
    """The same of several objects."""
    check_many(objects)
    return {key: put_view_of(data) for key, data in objects.items()}


def check_many(keys: Collection[str]) -> None:
    if len(keys) > MANY_MAX:
        raise LimitExceeded(f"{len(keys)} objects are more than the {MANY_MAX} of one call")
    for key in keys:
        check_key(key)


def check_get_size(key: str, size: int) -> None:
    if size > GET_BYTES_MAX:
        raise LimitExceeded(
            f"{size} bytes of {key!r} are more than the {GET_BYTES_MAX} of one get",
            next_step="use reader, or ask for a range",
        )


def check_range(start: int, end: int | None) -> None:
    if start < 0 or (end is not None and end < start):
        raise InvalidArgument(f"[{start}, {end}) is no range")


def check_ranges(key: str, ranges: Sequence[tuple[int, int]]) -> None:
    if len(ranges) > RANGES_MAX:
        raise LimitExceeded(f"{len(ranges)} ranges are more than the {RANGES_MAX} of one call")
    for start, end in ranges:
        check_range(start, end)
    check_get_size(key, sum(end - start for start, end in ranges))


def cut_ranges(key: str, size: int, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges as far as the object goes."""
    for start, _ in ranges:
        check_start(key, size, start)
    return [(start, min(end, size)) for start, end in ranges]


def check_start(key: str, size: int, start: int) -> None:
    if start > size:
        raise InvalidArgument(f"range of {key!r} begins at {start}, but it has {size} bytes", size=size)


def check_after(after: str) -> str:
    """`after` is a key, or with the delimiter also a folder, as a listing shows them."""
    if after:
        check_key(after.removesuffix("/"))
    return after


def check_expires(expires_s: int) -> None:
    if not 0 < expires_s <= EXPIRES_S_MAX:
        raise InvalidArgument(f"a signed URL lives between 1 and {EXPIRES_S_MAX} seconds, not {expires_s}")


def shown_url(url: str) -> str:
    """Return a URL without what may be secret in it."""
    parts = urlsplit(url)
    return ascii(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200])
