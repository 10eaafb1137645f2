"""Bounded types: the range of each number, and the length of each text, that crosses a door. Design: integrity.md D19.

    class LinkBody(msgspec.Struct):
        size_bytes: Size

A decoder refuses a value outside its range. Lengths are in code points.
"""

from typing import Annotated, Final

from msgspec import Meta

__all__ = [
    "SECONDS_MAX",
    "Address",
    "Count",
    "Metadata",
    "Moment",
    "Name",
    "Numbered",
    "Paragraph",
    "Signed",
    "Size",
    "Span",
]

INT64_MAX: Final = (1 << 63) - 1
SECONDS_MAX: Final = INT64_MAX // 1_000_000_000  # of a moment that is kept in nanoseconds, in 64 bits

Name = Annotated[str, Meta(max_length=1_024)]  # of anything that has one: an id, a branch, a path, an ETag
Address = Annotated[str, Meta(max_length=8_192)]
Paragraph = Annotated[str, Meta(max_length=65_536)]  # what people write: messages, values of metadata
Metadata = Annotated[dict[Name, Paragraph], Meta(max_length=1_000)]
Size = Annotated[int, Meta(ge=0, le=INT64_MAX)]  # in bytes
Numbered = Annotated[int, Meta(ge=0, le=INT64_MAX)]  # a place in a sequence
Count = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
Signed = Annotated[int, Meta(ge=-1, le=(1 << 31) - 1)]  # a count; -1 says "the default"
Moment = Annotated[int, Meta(ge=-SECONDS_MAX, le=SECONDS_MAX)]  # in seconds since 1970
Span = Annotated[float, Meta(ge=0, le=10 * 366 * 86_400)]  # a time to wait, in seconds
