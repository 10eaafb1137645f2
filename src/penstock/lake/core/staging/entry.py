"""Entries. Design: lake.md L4.

An entry says where an object's bytes are, and identifies them.
"""

import msgspec

__all__ = ["Change", "Entry"]


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An object under a path. Two entries are the same content if `identity` is the same, wherever the bytes are."""

    address: str
    size: int = 0
    etag: str = ""
    mtime_ns: int = 0
    content_type: str = ""
    metadata: str = ""  # JSON with sorted keys; empty for none

    @property
    def identity(self) -> tuple[int, str, str, str]:
        return self.size, self.etag, self.metadata, self.content_type


Change = tuple[str, Entry | None]  # a path, and its entry or a tombstone
