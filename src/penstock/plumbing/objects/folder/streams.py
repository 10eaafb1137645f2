"""Objects of any size to and from the local folder, chunk by chunk, each chunk in a thread."""

import asyncio
import os
from collections.abc import AsyncIterator

from penstock.kernel.errors import AlreadyClosed, ObjectStoreFailed
from penstock.plumbing.objects.arguments import view_of
from penstock.plumbing.objects.folder.disk import FolderDisk
from penstock.plumbing.objects.folder.errors import disk_errors
from penstock.plumbing.objects.folder.staging import StagedFile
from penstock.plumbing.objects.port import Buffer, ObjectMeta
from penstock.plumbing.objects.threads import Steps

__all__ = ["FileReader", "FileWriter", "read_at"]


def read_at(file: int, key: str, start: int, size: int) -> memoryview:
    """Bytes [start, start + size) of an object, all of them."""
    with disk_errors("get", key):
        data = os.pread(file, size, start)
        while len(data) < size:
            more = os.pread(file, size - len(data), start + len(data))
            if not more:
                raise ObjectStoreFailed(f"get {key!r}: the file was cut short by another program", retryable=False)
            data += more
    return memoryview(data)


class FileReader:
    """An object as chunks. The file was opened once, so all of them are of one version."""

    def __init__(self, meta: ObjectMeta, file: int, start: int, end: int, chunk_bytes: int, steps: Steps) -> None:
        self.meta = meta
        self._file = file
        self._at = start
        self._end = end
        self._chunk_bytes = chunk_bytes
        self._steps = steps

    async def __aiter__(self) -> AsyncIterator[memoryview]:
        while self._at < self._end:
            chunk = await self._steps.do(self._next)
            self._at += len(chunk)
            yield chunk

    def _next(self) -> memoryview:
        return read_at(self._file, self.meta.key, self._at, min(self._chunk_bytes, self._end - self._at))


class FileWriter:
    """An object being written into a staged file."""

    def __init__(self, key: str, disk: FolderDisk, staged: StagedFile, steps: Steps) -> None:
        self._key = key
        self._disk = disk
        self._staged: StagedFile | None = staged
        self._steps = steps
        self._size = 0

    @property
    def size(self) -> int:
        return self._size

    async def write(self, data: Buffer) -> None:
        staged = self._staged
        if staged is None:
            raise AlreadyClosed(f"the writer of {self._key!r} has ended")
        view = view_of(data)
        await self._steps.do(lambda: self._write(staged, view))
        self._size += view.nbytes

    def _write(self, staged: StagedFile, data: memoryview) -> None:
        with disk_errors("write", self._key):
            staged.write(data)

    async def finish(self) -> None:
        """Make the object appear, unless it was aborted."""
        staged = self._staged
        if staged is not None:
            await self._steps.do(lambda: self._disk.publish(staged, self._key))

    async def abort(self) -> None:
        """Close the staged file, and remove it if it was not given its name."""
        staged, self._staged = self._staged, None
        if staged is not None:
            await self._steps.quiet()
            await asyncio.to_thread(staged.close)
