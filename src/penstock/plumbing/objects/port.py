"""The object store port: what Penstock asks of a place that keeps objects.

Design: architecture.md, "Object store". Fragments, lake objects, ranges and metaranges go through this interface. It is
implemented by a local folder, memory, S3, GCS and Azure (`open_store`). On every one of them:

- An object appears whole or not at all, and is replaced whole: a reader never sees half of one.
- `put(if_absent=True)` is atomic: of any number of callers, on any number of machines, exactly one wins.
- What a call has answered is durable, and so is whatever a reader was shown.
- Listings come sorted by key, in pages.

A key is checked at the edge (`keys.py`), so that the same keys work everywhere. Errors: `NotFound` where a key has no
object; `PreconditionFailed` where `if_absent` or `if_match` does not hold; `ObjectStoreFailed` and `DiskFull` where the
store failed, with `written` saying whether the call may have taken effect. A cancelled call may still take effect.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Literal, NewType, Protocol, Self

import msgspec

__all__ = [
    "GET_BYTES_MAX",
    "MANY_MAX",
    "PUT_BYTES_MAX",
    "Buffer",
    "ETag",
    "ObjectMeta",
    "ObjectPage",
    "ObjectReader",
    "ObjectStore",
    "ObjectWriter",
    "SignMethod",
    "StoredObject",
]

PUT_BYTES_MAX = 256 << 20  # one request, held in memory; beyond this there is `writer`
GET_BYTES_MAX = 256 << 20  # one answer, held in memory; beyond this there is `reader`
MANY_MAX = 32  # objects of one `get_many` or `put_many`, which together must fit into memory

Buffer = bytes | bytearray | memoryview
SignMethod = Literal["GET", "PUT", "HEAD", "DELETE"]

# Names one content of one key, for `if_match`. Opaque; compared as a whole. Where a store derives it from the content
# (S3), writing the same bytes again gives the same ETag.
ETag = NewType("ETag", str)


class ObjectMeta(msgspec.Struct, frozen=True):
    """What a store says about an object without reading it."""

    key: str
    size: int
    etag: ETag
    modified: datetime  # by the store's clock, in UTC; some stores cut it to seconds: never order objects by it


class StoredObject(msgspec.Struct, frozen=True):
    """An object, or the asked part of it, with the metadata of the very version that was read."""

    meta: ObjectMeta
    data: memoryview


class ObjectPage(msgspec.Struct, frozen=True):
    """A part of a listing. Keys and folders are sorted, and all of them come behind those of the page before."""

    objects: tuple[ObjectMeta, ...]
    folders: tuple[str, ...] = ()  # with delimiter only: "a/b/" stands for every key below it


class ObjectReader(Protocol):
    """An object being read from front to back. All chunks are of one version, even if the key is replaced meanwhile."""

    @property
    def meta(self) -> ObjectMeta: ...

    def __aiter__(self) -> AsyncIterator[memoryview]: ...


class ObjectWriter(Protocol):
    """An object being written. It appears when the `async with` block ends well, and never if the block fails."""

    @property
    def size(self) -> int:
        """The number of bytes written so far."""
        ...

    async def write(self, data: Buffer) -> None:
        """Add bytes at the end. Waits while too many parts are under way."""
        ...

    async def abort(self) -> None:
        """Throw away all written bytes; the block may then end normally without an object."""
        ...


class ObjectStore(Protocol):
    """A place that keeps objects under keys. Safe to share between tasks of one event loop."""

    async def put(self, key: str, data: Buffer, *, if_absent: bool = False, if_match: ETag | None = None) -> ETag:
        """Store an object whole; return its new ETag.

        With `if_absent`, only where the key has no object; with `if_match`, only over that content: else
        `PreconditionFailed`. When it fails with an unknown outcome, read the key to learn which it was.
        """
        ...

    async def put_many(self, objects: Mapping[str, Buffer]) -> None:
        """Store objects whole, in less time than one by one. If this fails, any of them may be stored, or none."""
        ...

    async def get(self, key: str, start: int = 0, end: int | None = None) -> StoredObject:
        """Read an object, or its bytes [start, end). An end beyond the last byte is cut, a start beyond it refused."""
        ...

    async def get_many(self, keys: Sequence[str]) -> tuple[StoredObject, ...]:
        """Read objects whole, in less time than one by one."""
        ...

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> tuple[memoryview, ...]:
        """Read several [start, end) of one version of an object."""
        ...

    async def head(self, key: str) -> ObjectMeta:
        """Return the object's metadata."""
        ...

    async def delete(self, *keys: str) -> None:
        """Remove objects. A key without one is no error, so a failed call can be repeated."""
        ...

    async def copy(self, source: str, target: str) -> None:
        """Store the object of `source` under `target` too, replacing any object there. Bytes do not pass
        through here.
        """
        ...

    def writer(self, key: str) -> AbstractAsyncContextManager[ObjectWriter]:
        """Write an object of any size in parts. It replaces an existing object: writing in parts has no `if_absent`."""
        ...

    def reader(self, key: str, start: int = 0, end: int | None = None) -> AbstractAsyncContextManager[ObjectReader]:
        """Read an object of any size in chunks."""
        ...

    async def sign(self, method: SignMethod, key: str, expires_s: int) -> str:
        """A URL which allows this one request for a while, without credentials. A folder and memory cannot."""
        ...

    async def close(self) -> None:
        """Give back threads, connections and files. Further calls raise `AlreadyClosed`."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    # Last, because below its definition `list` is no longer the type.
    def list(self, prefix: str = "", *, after: str = "", delimiter: Literal["", "/"] = "") -> AsyncIterator[ObjectPage]:
        """Every object below a folder (`prefix` is empty, or ends in "/"), sorted by key, behind `after`.

        With the delimiter "/", only what lies directly in the folder, its sub-folders as names; these are held in
        memory at once, everything else page by page. Objects which come and go meanwhile may or may not be listed.
        """
        ...
