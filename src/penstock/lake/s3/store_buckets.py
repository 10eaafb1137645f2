"""Buckets on a bare object store: a plain bucket server, without branches and commits.

    buckets/NAME                 a bucket
    names/NAME/KEY               the object of a key: where its bytes are, their size and ETag, type, metadata
    objects/NAME/ID              the bytes, written once, never changed

The name is the truth: it is put last, with the store's own atomic conditions. A crash between the two, or two writers
at once, may leave bytes without a name; never a name without bytes. A listing reads every name below the prefix's
folder: right for thousands of objects, not for millions; for those there is the lake.
"""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from penstock.kernel.bounds import Metadata, Name, Paragraph, Size
from penstock.kernel.errors import InvalidArgument, NotFound, PreconditionFailed
from penstock.lake.core.staging.records import Precondition
from penstock.lake.s3.listing import page_of
from penstock.lake.s3.port import Info, Opened, S3Bucket, S3Listing, no_bucket, no_key
from penstock.lake.s3.protocol.faults import fault
from penstock.plumbing.http.conditions import ByteRange
from penstock.plumbing.objects.keys import check_key
from penstock.plumbing.objects.known import Md5Content
from penstock.plumbing.objects.port import Buffer, ETag, ObjectStore
from penstock.plumbing.objects.summed import SummedStore, gathered
from penstock.plumbing.ports.ports import Chance, system_ports

__all__ = ["StoreBuckets"]

EMPTY: Final = "%"  # an empty segment of a key; no other is quoted to this
WHOLE_BYTES_MAX: Final = 512 << 10  # read at once; more comes in chunks
LEAF: Final = "$"  # ends the last segment, so that keys "a" and "a/b" do not meet as a file and a folder


class _Name(msgspec.Struct, frozen=True):
    """The content of a name."""

    data: Name
    size: Size
    etag: Name
    content_type: Paragraph = ""
    metadata: Metadata = {}


class StoreBuckets:
    """The port, over one store, which stays the caller's to close."""

    def __init__(self, store: ObjectStore, chance: Chance | None = None) -> None:
        self._store = store
        self._chance = chance or system_ports().chance
        self._data = SummedStore(store)  # the same store, for the bytes of objects

    @property
    def scratch(self) -> ObjectStore:
        return self._store

    async def buckets(self, prefix: str = "") -> Sequence[S3Bucket]:
        found = [
            meta
            async for page in self._store.list("buckets/")
            for meta in page.objects
            if meta.key.startswith(f"buckets/{prefix}")
        ]
        return [S3Bucket(meta.key.removeprefix("buckets/"), meta.modified) for meta in found]

    async def check_bucket(self, bucket: str) -> None:
        try:
            await self._store.head(f"buckets/{_bucket(bucket)}")
        except (NotFound, InvalidArgument):
            raise no_bucket(bucket) from None

    async def create_bucket(self, bucket: str) -> None:
        await self._store.put(f"buckets/{_bucket(bucket)}", b"", if_absent=True)

    async def head(self, bucket: str, key: str) -> Info:
        name, _, modified = await self._name(bucket, key)
        return _info(key, name, modified)

    @asynccontextmanager
    async def open(self, bucket: str, key: str, part: ByteRange | None = None) -> AsyncIterator[Opened]:
        name, _, modified = await self._name(bucket, key)
        start, end = part.within(name.size) if part is not None else (0, name.size)
        chunks = self._chunks(name, start, end)
        try:
            yield Opened(_info(key, name, modified), start, end, chunks)
        finally:
            await chunks.aclose()

    async def list(self, bucket: str, *, prefix: str, after: str, delimiter: str, limit: int) -> S3Listing:
        await self.check_bucket(bucket)
        folder = prefix.rpartition("/")[0]
        below = f"names/{bucket}/" + "".join(f"{_quoted(segment)}/" for segment in folder.split("/") if folder)
        pages = self._store.list(below)
        found = [(_key_of(meta.key, bucket), meta) async for page in pages for meta in page.objects]
        found.sort(key=lambda one: one[0])
        objects, prefixes, behind = page_of(found, prefix=prefix, after=after, delimiter=delimiter, limit=limit)
        infos = []
        for key, meta in objects:
            try:
                stored = await self._store.get(meta.key)
            except NotFound:
                continue  # deleted meanwhile
            infos.append(_info(key, msgspec.json.decode(stored.data, type=_Name), meta.modified))
        return S3Listing(infos, prefixes, behind)

    async def put(
        self, bucket: str, key: str, content: AsyncIterable[Buffer], *, content_type: str = "",
        metadata: Mapping[str, str] | None = None, when: Precondition | None = None, etag: str = "",
    ) -> Info:  # fmt: skip
        await self.check_bucket(bucket)
        _name_key(bucket, key)
        data, md5 = f"objects/{bucket}/{self._chance.token(16).hex()}", hashlib.md5(usedforsecurity=False)
        async with self._data.writer(data) as writer:
            async for chunk in content:
                md5.update(chunk)
                await writer.write(chunk)
        name = _Name(data, writer.size, etag or md5.hexdigest(), content_type, dict(metadata or {}))
        return await self._put_name(bucket, key, name, when)

    async def copy(
        self, source_bucket: str, source_key: str, bucket: str, key: str, *, content_type: str | None = None,
        metadata: Mapping[str, str] | None = None, when: Precondition | None = None,
    ) -> Info:  # fmt: skip
        await self.check_bucket(bucket)
        source, _, _ = await self._name(source_bucket, source_key)
        data = f"objects/{bucket}/{self._chance.token(16).hex()}"
        await self._data.copy(source.data, data)
        changed = _Name(
            data,
            source.size,
            source.etag,
            source.content_type if content_type is None else content_type,
            source.metadata if metadata is None else dict(metadata),
        )
        return await self._put_name(bucket, key, changed, when)

    async def delete(self, bucket: str, keys: Iterable[str], *, when: Precondition | None = None) -> None:
        if when is not None:  # no store deletes under a condition, so the comparison would not be atomic
            raise fault("NotImplemented", "a conditional DeleteObject is supported on lakes only")
        await self.check_bucket(bucket)
        for key in keys:
            try:
                name, _, _ = await self._name(bucket, key)
            except NotFound:
                continue
            await self._store.delete(_name_key(bucket, key))
            await self._data.delete(name.data)

    async def _chunks(self, name: _Name, start: int, end: int) -> AsyncGenerator[memoryview, None]:
        known = Md5Content(name.etag, "an object", name.data) if len(name.etag) == 32 else None
        chunks = self._data.read(name.data, start, end, size=name.size, known=known)
        if start < end <= start + WHOLE_BYTES_MAX:
            yield await gathered(chunks)
        elif start < end:
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk

    async def _name(self, bucket: str, key: str) -> tuple[_Name, ETag, datetime]:
        try:
            stored = await self._store.get(_name_key(bucket, key))
        except NotFound:
            await self.check_bucket(bucket)
            raise no_key(key) from None
        return msgspec.json.decode(stored.data, type=_Name), stored.meta.etag, stored.meta.modified

    async def _put_name(self, bucket: str, key: str, name: _Name, when: Precondition | None) -> Info:
        at = _name_key(bucket, key)
        try:
            old, old_etag, _ = await self._name(bucket, key)
        except NotFound:
            old, old_etag = None, None
        body = msgspec.json.encode(name)
        try:
            if when is None:
                await self._store.put(at, body)
            elif when.absent:
                await self._store.put(at, body, if_absent=True)
            elif old is None or when.etag not in (None, old.etag):
                raise PreconditionFailed(f"{key[:200]!r} is not what If-Match says")
            else:
                await self._store.put(at, body, if_match=old_etag)
        except PreconditionFailed:
            await self._data.delete(name.data)
            raise
        if old is not None:
            await self._data.delete(old.data)
        return _info(key, name, (await self._store.head(at)).modified)


def _info(key: str, name: _Name, modified: datetime) -> Info:
    return Info(key, name.size, name.etag, modified, name.content_type, name.metadata)


def _bucket(name: str) -> str:
    if "/" in name:
        raise InvalidArgument("a bucket's name has no slash")
    return name


def _name_key(bucket: str, key: str) -> str:
    return check_key(f"names/{_bucket(bucket)}/" + "/".join(_quoted(segment) for segment in key.split("/")) + LEAF)


def _key_of(name_key: str, bucket: str) -> str:
    segments = name_key.removeprefix(f"names/{bucket}/").removesuffix(LEAF).split("/")
    return "/".join("" if segment == EMPTY else unquote(segment) for segment in segments)


def _quoted(segment: str) -> str:
    """A segment as every store takes it; a folder's must not end in a dot."""
    quoted = quote(segment, safe=" !'()*+,;=@&:") or EMPTY
    return f"{quoted[:-1]}%2E" if quoted.endswith(".") else quoted
