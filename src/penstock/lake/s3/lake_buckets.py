"""Buckets of a lake: a bucket is a repository, a key is `REF/PATH`. Design: lake.md; lakefs.md §3.

Reads take any ref (a branch, a tag, a commit, an expression), writes a branch. A listing whose prefix has no slash goes
over the branches: with the delimiter "/" they are the folders of the bucket, without one their objects follow each
other. A ref that does not exist lists as empty, as a folder of S3 would.
"""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from penstock.kernel.errors import AlreadyExists, InvalidArgument, NotFound
from penstock.lake.core.staging.records import Precondition
from penstock.lake.records.service import AMOUNT_MAX, Lake, Object
from penstock.lake.s3.port import Info, Opened, S3Bucket, S3Listing, no_bucket, no_key
from penstock.lake.s3.protocol.faults import fault
from penstock.plumbing.http.conditions import ByteRange
from penstock.plumbing.objects.port import Buffer, ObjectStore
from penstock.plumbing.ports.ports import Clocks, system_ports

__all__ = ["LakeBuckets"]

EMPTY_MD5: Final = "d41d8cd98f00b204e9800998ecf8427e"
FOLDER_TYPE: Final = "application/x-directory"


class LakeBuckets:
    """The port, over a lake."""

    def __init__(self, lake: Lake, clock: Clocks | None = None) -> None:
        self._lake = lake
        self._clock = clock or system_ports().clock

    @property
    def scratch(self) -> ObjectStore:
        return self._lake.store

    async def buckets(self, prefix: str = "") -> Sequence[S3Bucket]:
        found: list[S3Bucket] = []
        after, has_more = "", True
        while has_more:
            page = await self._lake.repositories(prefix=prefix, after=after)
            found += [S3Bucket(one.name, datetime.fromtimestamp(one.created_at, UTC)) for one in page.results]
            after, has_more = page.next, page.has_more
        return found

    async def check_bucket(self, bucket: str) -> None:
        try:
            await self._lake.repository(bucket)
        except InvalidArgument:
            raise no_bucket(bucket) from None  # no repository can have this name

    async def create_bucket(self, bucket: str) -> None:
        try:
            await self._lake.create_repository(bucket)
        except AlreadyExists:
            raise fault("BucketAlreadyOwnedByYou", f"there is a repository {bucket!r} already") from None

    async def head(self, bucket: str, key: str) -> Info:
        if key.endswith("/") and key.count("/") == 1:
            return await self._root_folder(bucket, key)
        ref, path = _to_read(key)
        return _info(ref, await self._lake.head(bucket, ref, path))

    async def _root_folder(self, bucket: str, key: str) -> Info:
        """Return the empty object that stands for a branch's root. Clients of directories write and look for it."""
        made = await self._lake.branch(bucket, key[:-1])
        now = datetime.fromtimestamp(self._clock.time_ns() / 1e9, UTC)
        return Info(key, 0, EMPTY_MD5, now, FOLDER_TYPE, {"commit": made.commit})

    @asynccontextmanager
    async def open(self, bucket: str, key: str, part: ByteRange | None = None) -> AsyncIterator[Opened]:
        if key.endswith("/") and key.count("/") == 1:
            yield Opened(await self._root_folder(bucket, key), 0, 0, _no_bytes())
            return
        ref, path = _to_read(key)
        wish = part or ByteRange(0)
        async with self._lake.open(bucket, ref, path, wish.start, wish.end) as reading:
            info = _info(ref, reading.object)
            if part is not None:
                part.within(info.size)
            yield Opened(info, reading.start, reading.end, reading.chunks)

    async def put(
        self, bucket: str, key: str, content: AsyncIterable[Buffer], *, content_type: str = "",
        metadata: Mapping[str, str] | None = None, when: Precondition | None = None, etag: str = "",
    ) -> Info:  # fmt: skip
        if key.endswith("/") and key.count("/") == 1:
            if [chunk async for chunk in content if len(chunk)]:
                raise InvalidArgument(f"{key[:200]!r} has no path: only an empty object, a folder, can be put there")
            return await self._root_folder(bucket, key)
        branch, path = _to_write(key)
        made = await self._lake.put(
            bucket, branch, path, content, content_type=content_type, metadata=metadata, when=when, etag=etag
        )
        return _info(branch, made)

    async def copy(
        self, source_bucket: str, source_key: str, bucket: str, key: str, *, content_type: str | None = None,
        metadata: Mapping[str, str] | None = None, when: Precondition | None = None,
    ) -> Info:  # fmt: skip
        (source_ref, source_path), (branch, path) = _to_read(source_key), _to_write(key)
        if source_bucket == bucket:
            made = await self._lake.copy(
                bucket,
                branch,
                path,
                source_ref=source_ref,
                source_path=source_path,
                metadata=metadata,
                content_type=content_type,
                when=when,
            )
            return _info(branch, made)
        # Repositories share no bytes: what the collector of one takes must not be the other's.
        async with self._lake.open(source_bucket, source_ref, source_path) as reading:
            source = _info(source_ref, reading.object)
            return await self.put(
                bucket,
                key,
                reading.chunks,
                content_type=source.content_type if content_type is None else content_type,
                metadata=source.metadata if metadata is None else metadata,
                when=when,
                etag=source.etag if "-" in source.etag else "",  # else it is the MD5 of the bytes that are copied
            )

    async def delete(self, bucket: str, keys: Iterable[str], *, when: Precondition | None = None) -> None:
        paths: dict[str, list[str]] = {}
        for key in keys:
            branch, _, path = key.partition("/")
            if path:  # Spark deletes the bare "main/", which is no object and nothing to complain of
                paths.setdefault(branch, []).append(path)
        for branch, found in paths.items():
            await self._lake.delete(bucket, branch, found, when=when)

    async def list(self, bucket: str, *, prefix: str, after: str, delimiter: str, limit: int) -> S3Listing:
        await self.check_bucket(bucket)
        ref, slash, path_prefix = prefix.partition("/")
        if slash:
            return await self._list_ref(bucket, ref, path_prefix, after, delimiter, limit)
        return await self._list_branches(bucket, prefix, after, delimiter, limit)

    async def _list_ref(self, bucket: str, ref: str, prefix: str, after: str, delimiter: str, limit: int) -> S3Listing:
        """Return the objects of one ref, under keys that begin with it."""
        root = f"{ref}/"
        if after > root and not after.startswith(root):
            return S3Listing(())
        try:
            page = await self._lake.list(
                bucket, ref, prefix=prefix, after=after.removeprefix(root) if after > root else "",
                delimiter=delimiter, limit=min(limit, AMOUNT_MAX),
            )  # fmt: skip
        except (NotFound, InvalidArgument):
            return S3Listing(())
        return S3Listing(
            [_info(ref, one) for one in page.results if not one.is_prefix],
            [root + one.path for one in page.results if one.is_prefix],
            root + page.next if page.has_more else "",
        )

    async def _list_branches(self, bucket: str, prefix: str, after: str, delimiter: str, limit: int) -> S3Listing:
        objects: list[Info] = []
        prefixes: list[str] = []
        last = ""
        for root in await self._roots(bucket, prefix):
            if len(objects) + len(prefixes) >= limit:
                return S3Listing(objects, prefixes, last)
            cut = root.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                common = root[: cut + len(delimiter)]
                if common > after and common not in prefixes:
                    prefixes.append(common)
                    last = common
                continue
            room = limit - len(objects) - len(prefixes)
            page = await self._list_ref(bucket, root[:-1], "", after, delimiter, room)
            objects += page.objects
            prefixes += page.prefixes
            last = max([last, *(one.key for one in page.objects), *page.prefixes])
            if page.next:
                return S3Listing(objects, prefixes, page.next)
        return S3Listing(objects, prefixes)

    async def _roots(self, bucket: str, prefix: str) -> Sequence[str]:
        """Return every branch with its slash, in the order of keys: "a-b/" comes before "a/"."""
        found: set[str] = set()
        after, has_more = "", True
        while has_more:
            page = await self._lake.branches(bucket, prefix=prefix, after=after)
            found |= {f"{one.name}/" for one in page.results}
            after, has_more = page.next, page.has_more
        return sorted(found)


async def _no_bytes() -> AsyncGenerator[memoryview, None]:
    for part in [memoryview(b"")][:0]:
        yield part


def _to_read(key: str) -> tuple[str, str]:
    ref, _, path = key.partition("/")
    if not path:
        raise no_key(key)
    return ref, path


def _to_write(key: str) -> tuple[str, str]:
    branch, _, path = key.partition("/")
    if not path:
        raise InvalidArgument(f"{key[:200]!r} has no path: a key is BRANCH/PATH, like main/{branch[:100] or 'a.txt'}")
    return branch, path


def _info(ref: str, found: Object) -> Info:
    entry = found.entry
    assert entry is not None, "a common prefix is no object"
    return Info(
        key=f"{ref}/{found.path}",
        size=entry.size,
        etag=entry.etag,
        modified=datetime.fromtimestamp(entry.mtime_ns / 1e9, UTC),
        content_type=entry.content_type,
        metadata=found.metadata,
    )
