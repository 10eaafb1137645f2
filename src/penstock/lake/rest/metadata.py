"""Metadata of objects in the headers of lakeFS's API, and its names as S3 has them.

    x-lakefs-meta-color: blue                 color = blue
    x-lakefs-internal-client-mtime: 17…       ::lakefs::client-mtime = 17…: times and permissions of files, for lakectl

S3's clients send `x-amz-meta-color`. Here, as in S3, that is the name `color`, through both doors.
"""

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["MARK", "metadata_headers", "metadata_of", "plain_names"]

META: Final = "x-lakefs-meta-"
INTERNAL: Final = "x-lakefs-internal-"
MARK: Final = "::lakefs::"
S3_META: Final = "x-amz-meta-"
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}", re.ASCII)


def metadata_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata that an upload's headers give.

    >>> metadata_of({"x-lakefs-meta-a": "1", "x-lakefs-internal-client-mtime": "2", "host": "x"})
    {'a': '1', '::lakefs::client-mtime': '2'}
    """
    own = {name[len(META) :]: value for name, value in headers.items() if name.startswith(META)}
    files = {MARK + name[len(INTERNAL) :]: value for name, value in headers.items() if name.startswith(INTERNAL)}
    return plain_names(own) | files


def plain_names(metadata: Mapping[str, str]) -> dict[str, str]:
    """Drop S3's prefix of names.

    >>> plain_names({"X-Amz-Meta-Color": "blue", "size": "L"})
    {'color': 'blue', 'size': 'L'}
    """
    return {
        name[len(S3_META) :].lower() if name.lower().startswith(S3_META) else name: value
        for name, value in metadata.items()
    }


def metadata_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of an answer. A name that no header can carry shows in listings only."""
    named = {
        (INTERNAL + name[len(MARK) :] if name.startswith(MARK) else META + name): value
        for name, value in metadata.items()
    }
    return {name: value.encode().decode("latin-1") for name, value in named.items() if _TOKEN.fullmatch(name)}
