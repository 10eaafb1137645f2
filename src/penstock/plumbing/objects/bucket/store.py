"""A bucket behind obstore: S3, GCS, Azure, or memory.

obstore tries requests again by itself, and tells of the last attempt only. For a put that is not enough: if the answer
to one attempt is lost, the next may meet its own success and call it a lost race, or fail to connect and call it "not
sent". So puts go through a second client without retries, and the loop here remembers what may have taken effect.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, Literal, Self

import obstore

from penstock.kernel.errors import InvalidArgument, NotFound, ObjectStoreFailed, PenstockError, Written
from penstock.plumbing.objects.arguments import (
    check_after,
    check_condition,
    check_expires,
    check_get_size,
    check_many,
    check_range,
    check_ranges,
    check_start,
    cut_ranges,
    put_view_of,
    put_views_of,
)
from penstock.plumbing.objects.bucket.failures import (
    RAISED_BY_OBSTORE,
    Failure,
    asking,
    error_of,
    failure_of,
    summary_of,
)
from penstock.plumbing.objects.bucket.streams import Download, UploadStream
from penstock.plumbing.objects.keys import check_key, check_prefix, is_key
from penstock.plumbing.objects.listing import Entry, folder_pages
from penstock.plumbing.objects.options import StoreOptions
from penstock.plumbing.objects.port import (
    Buffer,
    ETag,
    ObjectMeta,
    ObjectPage,
    ObjectReader,
    ObjectWriter,
    SignMethod,
    StoredObject,
)
from penstock.plumbing.objects.threads import Steps, Threads, all_of

__all__ = ["BucketStore", "Kind"]

Kind = Literal["memory", "s3", "gs", "az"]

_RETRIED = (Failure.CONFLICT, Failure.NOT_SENT, Failure.TRANSIENT)


class BucketStore:
    """An `ObjectStore` on one of obstore's clients."""

    def __init__(self, client: Any, once: Any, kind: Kind, name: str, options: StoreOptions) -> None:
        self._client = client
        self._once = once  # the same bucket, without retries
        self._kind = kind
        self._name = name
        self._options = options
        self._threads = Threads(repr(self), options.threads_max)
        self._random = Random()
        # GCS compares generations, the others ETags.
        self._etag_field = "version" if kind == "gs" else "e_tag"

    def __repr__(self) -> str:
        return f"BucketStore({self._name})"

    async def put(self, key: str, data: Buffer, *, if_absent: bool = False, if_match: ETag | None = None) -> ETag:
        check_key(key)
        view = put_view_of(data)
        check_condition(if_absent=if_absent, if_match=if_match)
        mode: Any = {self._etag_field: if_match} if if_match is not None else "create" if if_absent else "overwrite"
        put = partial(obstore.put, self._once, key, view, mode=mode, use_multipart=False)
        doubtful = False  # an earlier attempt may have taken effect
        pauses = iter(self._pauses_s())
        while True:
            try:
                return self._etag(await self._threads.run(put))
            except RAISED_BY_OBSTORE as error:
                failure = failure_of(error)
                pause = next(pauses, None) if failure in _RETRIED else None
                if pause is None:
                    raise _put_error(error, key, doubtful=doubtful) from None
                doubtful = doubtful or failure is Failure.TRANSIENT
                await asyncio.sleep(pause)

    async def put_many(self, objects: Mapping[str, Buffer]) -> None:
        await all_of(self.put(key, view) for key, view in put_views_of(objects).items())

    def _pauses_s(self) -> Iterator[float]:
        """Yield the pause before each further attempt, as long as another attempt is allowed."""
        options, deadline = self._options, time.monotonic() + self._options.retry_ms_max / 1000
        for attempt in range(options.retries_max):
            longest = min(options.backoff_ms << attempt, options.backoff_ms_max)
            pause = self._random.uniform(longest / 2, longest) / 1000
            if time.monotonic() + pause > deadline:
                return
            yield pause

    async def get(self, key: str, start: int = 0, end: int | None = None) -> StoredObject:
        result = await self._request(key, start, end)
        if result is None:
            return StoredObject(await self._empty_range(key, start), memoryview(b""))
        first, behind = result.range
        check_get_size(key, behind - first)
        with asking("get", key):
            return StoredObject(self._meta(result.meta), memoryview(await self._threads.run(result.bytes)))

    async def _request(self, key: str, start: int, end: int | None) -> Any:
        """The store's answer to a ranged get, or None where no byte of the object is in the range."""
        check_key(key)
        check_range(start, end)
        if start == end:
            return None  # HTTP has no empty range
        part: Any = (start, end) if end is not None else {"offset": start}
        options: Any = {"range": part} if start or end is not None else {}  # an empty object has no range at all
        try:
            return await self._threads.run(lambda: obstore.get(self._client, key, options=options))
        except RAISED_BY_OBSTORE as error:
            if failure_of(error) is Failure.RANGE:
                return None
            raise error_of(error, "get", key, changes=False) from None

    async def _empty_range(self, key: str, start: int) -> ObjectMeta:
        meta = await self.head(key)
        check_start(key, meta.size, start)
        return meta

    async def get_many(self, keys: Sequence[str]) -> tuple[StoredObject, ...]:
        check_many(keys)
        return await all_of(self.get(key) for key in keys)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> tuple[memoryview, ...]:
        check_ranges(key, ranges)
        meta = await self.head(key)
        cut = cut_ranges(key, meta.size, ranges)
        starts, ends = [start for start, end in cut if start < end], [end for start, end in cut if start < end]
        with asking("get", key):
            get = partial(obstore.get_ranges, self._client, key, starts=starts, ends=ends)
            found = iter(await self._threads.run(get) if starts else ())
        return tuple(memoryview(next(found)) if start < end else memoryview(b"") for start, end in cut)

    async def head(self, key: str) -> ObjectMeta:
        check_key(key)
        with asking("head", key):
            return self._meta(await self._threads.run(lambda: obstore.head(self._client, key)))

    async def delete(self, *keys: str) -> None:
        for key in keys:
            check_key(key)
        for first in range(0, len(keys), self._options.page_keys_max):
            await self._delete_page(keys[first : first + self._options.page_keys_max])

    async def _delete_page(self, keys: Sequence[str]) -> None:
        try:
            with asking("delete", keys[0], changes=True):
                paths = keys if len(keys) > 1 else keys[0]
                await self._threads.run(lambda: obstore.delete(self._client, paths))
        except NotFound:
            # GCS and Azure report a missing key, and stop there: go through them one by one.
            for key in keys if len(keys) > 1 else ():
                await self._delete_page([key])

    async def copy(self, source: str, target: str) -> None:
        check_key(source)
        check_key(target)
        with asking("copy", source, changes=True):
            await self._threads.run(lambda: obstore.copy(self._client, source, target))

    @asynccontextmanager
    async def writer(self, key: str) -> AsyncIterator[ObjectWriter]:
        check_key(key)
        self._threads.check_open()
        upload = UploadStream(self._client, key, self._options, Steps(self._threads))
        try:
            yield upload
        except BaseException:
            with suppress(ObjectStoreFailed):  # the error under way matters more than parts left in the bucket
                await upload.abort()
            raise
        await upload.finish()

    @asynccontextmanager
    async def reader(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[ObjectReader]:
        result = await self._request(key, start, end)
        meta = await self._empty_range(key, start) if result is None else self._meta(result.meta)
        yield Download(meta, result, self._options.chunk_bytes, Steps(self._threads))

    async def sign(self, method: SignMethod, key: str, expires_s: int) -> str:
        check_key(key)
        check_expires(expires_s)
        if self._kind == "memory":
            raise InvalidArgument("a store in memory has no URLs to sign")
        with asking("sign", key):
            expires = timedelta(seconds=expires_s)
            return str(await self._threads.run(lambda: obstore.sign(self._client, method, key, expires_in=expires)))

    async def close(self) -> None:
        await self._threads.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _etag(self, result: Mapping[str, Any]) -> ETag:
        etag = str(result[self._etag_field])
        if self._kind == "az" and not etag.startswith('"'):
            etag = f'"{etag}"'  # its listings leave the quotes out
        return ETag(etag)

    def _meta(self, meta: Mapping[str, Any]) -> ObjectMeta:
        return ObjectMeta(meta["path"], meta["size"], self._etag(meta), meta["last_modified"])

    async def _list_below(self, prefix: str, after: str) -> AsyncIterator[ObjectPage]:
        stream = obstore.list(
            self._client,
            prefix or None,
            offset=after.removesuffix("/") or None,
            chunk_size=self._options.page_keys_max,
        )
        with asking("list", prefix):
            while found := await self._threads.run(lambda: next(stream, None)):
                keys = (meta for meta in found if is_key(meta["path"]) and meta["path"] > after)
                yield ObjectPage(tuple(self._meta(meta) for meta in keys))

    async def _list_folder(self, prefix: str, after: str) -> AsyncIterator[ObjectPage]:
        with asking("list", prefix):
            found = await self._threads.run(lambda: obstore.list_with_delimiter(self._client, prefix or None))
        entries: list[Entry] = [(f"{folder}/", None) for folder in found["common_prefixes"] if is_key(folder)]
        entries += [(meta["path"], self._meta(meta)) for meta in found["objects"] if is_key(meta["path"])]
        for page in folder_pages(entries, after, self._options.page_keys_max):
            yield page

    # Last, because below its definition `list` is no longer the type.
    async def list(
        self, prefix: str = "", *, after: str = "", delimiter: Literal["", "/"] = ""
    ) -> AsyncIterator[ObjectPage]:
        check_prefix(prefix)
        check_after(after)
        async for page in (self._list_folder if delimiter else self._list_below)(prefix, after):
            if page.objects or page.folders:
                yield page


def _put_error(error: Exception, key: str, *, doubtful: bool) -> PenstockError:
    """Return the error of a put that failed in the end, after attempts that may have taken effect."""
    if not doubtful:
        return error_of(error, "put", key, changes=True)
    return ObjectStoreFailed(
        f"put {key!r}: the answer to an attempt was lost, and the last one failed: {summary_of(error)}",
        written=Written.UNKNOWN,
        next_step="read the key to learn whether it was made",
        key=key,
    )
