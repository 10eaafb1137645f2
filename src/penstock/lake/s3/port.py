"""The port of the S3 gateway: its requests to the store of its buckets.

It has two implementations: a lake (`lake_buckets.py`; a bucket is a repository, a key is `ref/path`) and a bare object
store (`store_buckets.py`). On both: an object appears whole or not at all; `put` and `copy` with a precondition are
atomic; content which raises while it is read leaves nothing behind.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

import msgspec

from penstock.kernel.errors import NotFound
from penstock.lake.core.staging.records import Precondition
from penstock.plumbing.http.conditions import ByteRange
from penstock.plumbing.objects.port import Buffer, ObjectStore

__all__ = ["Buckets", "Info", "Opened", "S3Bucket", "S3Listing", "no_bucket", "no_key"]


class S3Bucket(msgspec.Struct, frozen=True):
    """A bucket."""

    name: str
    created: datetime


class Info(msgspec.Struct, frozen=True):
    """An object's metadata."""

    key: str
    size: int
    etag: str  # without quotes
    modified: datetime
    content_type: str = ""
    metadata: Mapping[str, str] = {}


class S3Listing(msgspec.Struct, frozen=True):
    """A page of a bucket, sorted. `next` is the `after` of the following page; empty at the end."""

    objects: Sequence[Info]
    prefixes: Sequence[str] = ()
    next: str = ""


class Opened(msgspec.Struct, frozen=True):
    """An object, and its bytes [start, end), all of one version. Nothing is read before the first is asked for."""

    info: Info
    start: int
    end: int
    chunks: AsyncIterator[memoryview]


class Buckets(Protocol):
    """Errors: `NotFound` (`details["kind"]` is "repository" for a bucket), `PreconditionFailed`, `InvalidArgument`."""

    @property
    def scratch(self) -> ObjectStore:
        """The place for parts of unfinished uploads, below `scratch/`."""
        ...

    async def buckets(self, prefix: str = "") -> Sequence[S3Bucket]:
        """Return all buckets with a prefix, sorted by name."""
        ...

    async def check_bucket(self, bucket: str) -> None: ...

    async def create_bucket(self, bucket: str) -> None: ...

    async def head(self, bucket: str, key: str) -> Info: ...

    def open(self, bucket: str, key: str, part: ByteRange | None = None) -> AbstractAsyncContextManager[Opened]: ...

    async def put(
        self, bucket: str, key: str, content: AsyncIterable[Buffer], *, content_type: str = "",
        metadata: Mapping[str, str] | None = None, when: Precondition | None = None, etag: str = "",
    ) -> Info:  # fmt: skip
        """Without a given ETag, it is the MD5 of the bytes."""
        ...

    async def copy(
        self, source_bucket: str, source_key: str, bucket: str, key: str, *, content_type: str | None = None,
        metadata: Mapping[str, str] | None = None, when: Precondition | None = None,
    ) -> Info:  # fmt: skip
        """Content type and metadata are those of the source where none are given."""
        ...

    async def delete(self, bucket: str, keys: Iterable[str], *, when: Precondition | None = None) -> None:
        """Delete objects; missing keys are no error. A precondition holds for one key."""
        ...

    # Last, because below its definition `list` is no longer the type.
    async def list(self, bucket: str, *, prefix: str, after: str, delimiter: str, limit: int) -> S3Listing:
        """Return the keys after `after` that begin with the prefix; those that continue past a delimiter as one common
        prefix.
        """
        ...


def no_bucket(bucket: str) -> NotFound:
    return NotFound(f"there is no bucket {bucket!r}", kind="repository")


def no_key(key: str) -> NotFound:
    return NotFound(f"there is no object {key[:200]!r}", kind="object")
