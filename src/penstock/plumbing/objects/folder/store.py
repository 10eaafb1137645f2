"""The local folder as an `ObjectStore`: the blocking half (`disk.py`) in a few threads."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Literal, Self

from penstock.kernel.errors import InvalidArgument
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
from penstock.plumbing.objects.folder.disk import FolderDisk
from penstock.plumbing.objects.folder.errors import disk_errors
from penstock.plumbing.objects.folder.staging import StagedFile
from penstock.plumbing.objects.folder.streams import FileReader, FileWriter, read_at
from penstock.plumbing.objects.folder.syscalls import Syscalls
from penstock.plumbing.objects.folder.walk import folder_entries, walk
from penstock.plumbing.objects.keys import check_key, check_prefix
from penstock.plumbing.objects.listing import folder_pages
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
from penstock.plumbing.objects.threads import Steps, Threads

__all__ = ["FolderStore"]


class FolderStore:
    """Objects as files below one folder, which is made when the first object is put."""

    def __init__(self, root: str, options: StoreOptions, syscalls: Syscalls | None = None) -> None:
        assert os.path.isabs(root), root
        self._disk = FolderDisk(root.rstrip("/"), options.lock_ms_max, syscalls)
        self._options = options
        self._threads = Threads(repr(self), options.threads_max)

    def __repr__(self) -> str:
        return f"FolderStore({self._disk.root})"

    async def put(self, key: str, data: Buffer, *, if_absent: bool = False, if_match: ETag | None = None) -> ETag:
        check_key(key)
        view = put_view_of(data)
        check_condition(if_absent=if_absent, if_match=if_match)
        return await self._threads.run(lambda: self._disk.put(key, view, if_absent=if_absent, if_match=if_match))

    async def put_many(self, objects: Mapping[str, Buffer]) -> None:
        views = put_views_of(objects)
        if views:
            await self._threads.run(lambda: self._disk.put_many(views))

    async def get(self, key: str, start: int = 0, end: int | None = None) -> StoredObject:
        check_key(key)
        check_range(start, end)
        return await self._threads.run(lambda: self._get(key, start, end))

    def _get(self, key: str, start: int, end: int | None) -> StoredObject:
        found = self._get_early(key, start, end)
        self._disk.settle([key])
        return found

    def _get_early(self, key: str, start: int = 0, end: int | None = None) -> StoredObject:
        file, meta = self._disk.open_early(key)
        try:
            check_start(key, meta.size, start)
            size = (meta.size if end is None else min(end, meta.size)) - start
            check_get_size(key, size)
            return StoredObject(meta, read_at(file, key, start, size))
        finally:
            os.close(file)

    async def get_many(self, keys: Sequence[str]) -> tuple[StoredObject, ...]:
        check_many(keys)
        return await self._threads.run(lambda: self._get_many(keys)) if keys else ()

    def _get_many(self, keys: Sequence[str]) -> tuple[StoredObject, ...]:
        found = tuple(self._get_early(key) for key in keys)
        self._disk.settle(keys)
        return found

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> tuple[memoryview, ...]:
        check_key(key)
        check_ranges(key, ranges)
        return await self._threads.run(lambda: self._get_ranges(key, ranges))

    def _get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> tuple[memoryview, ...]:
        file, meta = self._disk.open(key)
        try:
            return tuple(read_at(file, key, start, end - start) for start, end in cut_ranges(key, meta.size, ranges))
        finally:
            os.close(file)

    async def head(self, key: str) -> ObjectMeta:
        check_key(key)
        return await self._threads.run(lambda: self._head(key))

    def _head(self, key: str) -> ObjectMeta:
        file, meta = self._disk.open(key)
        os.close(file)
        return meta

    async def delete(self, *keys: str) -> None:
        for key in keys:
            check_key(key)
        await self._threads.run(lambda: self._disk.delete(keys))

    async def copy(self, source: str, target: str) -> None:
        check_key(source)
        check_key(target)
        await self._threads.run(lambda: self._disk.copy(source, target))

    @asynccontextmanager
    async def writer(self, key: str) -> AsyncIterator[ObjectWriter]:
        check_key(key)
        steps = Steps(self._threads)
        staged = await self._threads.take(lambda: self._disk.stage(key), StagedFile.close)
        writer = FileWriter(key, self._disk, staged, steps)
        try:
            yield writer
            await writer.finish()
        finally:
            await writer.abort()

    @asynccontextmanager
    async def reader(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[ObjectReader]:
        check_key(key)
        check_range(start, end)
        steps = Steps(self._threads)
        file, meta = await self._threads.take(lambda: self._disk.open(key), lambda opened: os.close(opened[0]))
        try:
            check_start(key, meta.size, start)
            behind = meta.size if end is None else min(end, meta.size)
            yield FileReader(meta, file, start, behind, self._options.chunk_bytes, steps)
        finally:
            await steps.quiet()
            os.close(file)

    async def sign(self, method: SignMethod, key: str, expires_s: int) -> str:
        check_key(key)
        check_expires(expires_s)
        raise InvalidArgument("a folder has no URLs to sign; serve its files, or use a bucket")

    async def close(self) -> None:
        await self._threads.close()
        self._disk.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Last, because below its definition `list` is no longer the type.
    async def list(
        self, prefix: str = "", *, after: str = "", delimiter: Literal["", "/"] = ""
    ) -> AsyncIterator[ObjectPage]:
        check_prefix(prefix)
        check_after(after)
        pages = self._pages(prefix, after, delimiter)
        while page := await self._threads.run(lambda: self._next_page(pages, prefix)):
            yield page

    def _pages(self, prefix: str, after: str, delimiter: str) -> Iterator[ObjectPage]:
        page_keys_max = self._options.page_keys_max
        if delimiter:
            yield from folder_pages(folder_entries(self._disk, prefix), after, page_keys_max)
        else:
            objects = walk(self._disk, prefix, after)
            while page := tuple(islice(objects, page_keys_max)):
                yield ObjectPage(page)

    def _next_page(self, pages: Iterator[ObjectPage], prefix: str) -> ObjectPage | None:
        with disk_errors("list", prefix):
            return next(pages, None)
