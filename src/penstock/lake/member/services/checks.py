"""Checks of the lake's service: what a caller gives must be something that can be recorded, and shown again.

Every door has ranges in its types (`kernel/bounds.py`). These checks hold for callers in this process too.
"""

import re
from collections.abc import Mapping
from typing import Final

from penstock.kernel.bounds import SECONDS_MAX
from penstock.kernel.errors import InvalidArgument, LimitExceeded
from penstock.kernel.ids import SECOND
from penstock.lake.core.committed.entry import encode_metadata

__all__ = ["checked_metadata", "checked_type", "nanoseconds"]

METADATA_BYTES_MAX: Final = 16 << 10
TYPE_CHARACTERS_MAX: Final = 1024
DEFAULT_TYPE: Final = "application/octet-stream"
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # a header's value may hold a tab, and no other of them


def nanoseconds(seconds: float, what: str) -> int:
    """A moment since 1970 in nanoseconds; `InvalidArgument` if 64 bits do not hold it.

    >>> nanoseconds(1.5, "date")
    1500000000
    """
    if not -SECONDS_MAX <= seconds <= SECONDS_MAX:
        raise InvalidArgument(f"{what} {seconds}: expected seconds since 1970, up to {SECONDS_MAX}")
    return int(seconds * SECOND)


def checked_metadata(metadata: Mapping[str, str] | None) -> str:
    """Metadata of an object as an entry holds it. Headers must be able to carry each name and value."""
    for name, value in (metadata or {}).items():
        if not name or _CONTROL.search(name) or "\t" in name or _CONTROL.search(value):
            raise InvalidArgument(
                f"metadata {name[:100]!r}: no header can carry this name or its value {value[:100]!r}"
            )
    text = encode_metadata(metadata or {})
    size = len(text.encode())
    if size > METADATA_BYTES_MAX:
        raise LimitExceeded(f"metadata of {size} bytes is above the limit of {METADATA_BYTES_MAX}", status=400)
    return text


def checked_type(content_type: str) -> str:
    """A content type, or the default for none."""
    if len(content_type) > TYPE_CHARACTERS_MAX or _CONTROL.search(content_type):
        raise InvalidArgument(
            f"content type {content_type[:100]!r}: expected at most {TYPE_CHARACTERS_MAX} characters of one line"
        )
    return content_type or DEFAULT_TYPE
