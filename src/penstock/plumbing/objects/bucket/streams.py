"""Objects of any size to and from a bucket: parts up, chunks down, both bounded in memory."""

from collections.abc import AsyncIterator
from typing import Any

import obstore

from penstock.kernel.errors import AlreadyClosed
from penstock.plumbing.objects.arguments import view_of
from penstock.plumbing.objects.bucket.failures import asking
from penstock.plumbing.objects.options import StoreOptions
from penstock.plumbing.objects.port import Buffer, ObjectMeta
from penstock.plumbing.objects.threads import Steps

__all__ = ["Download", "UploadStream"]


class UploadStream:
    """A multipart upload; up to one part it is a plain put. At most `parts_in_flight_max` parts are held in memory."""

    def __init__(self, client: Any, key: str, options: StoreOptions, steps: Steps) -> None:
        self._key = key
        self._file: Any = obstore.open_writer(
            client, key, buffer_size=options.part_bytes, max_concurrency=options.parts_in_flight_max
        )
        self._steps = steps
        self._size = 0
        self._ended = False

    @property
    def size(self) -> int:
        return self._size

    async def write(self, data: Buffer) -> None:
        if self._ended:
            raise AlreadyClosed(f"the writer of {self._key!r} has ended")
        # Parts are sent later, so what the caller may still change is copied.
        chunk = data if isinstance(data, bytes) else bytes(view_of(data))
        with asking("write", self._key):
            await self._steps.do(lambda: self._file.write(chunk))
        self._size += len(chunk)

    async def finish(self) -> None:
        """Make the object appear, unless the upload was aborted."""
        if not self._ended:
            self._ended = True
            with asking("finish", self._key, changes=True):
                await self._steps.do(self._file.close)

    async def abort(self) -> None:
        if not self._ended:
            self._ended = True
            await self._steps.quiet()
            with asking("abort", self._key):
                # obstore aborts when the block it guards has failed.
                await self._steps.do(lambda: self._file.__exit__(RuntimeError, None, None))


class Download:
    """An object as chunks, from one request: all of them are of one version."""

    def __init__(self, meta: ObjectMeta, result: Any, chunk_bytes: int, steps: Steps) -> None:
        self.meta = meta
        self._chunks = iter(()) if result is None else result.stream(min_chunk_size=chunk_bytes)
        self._steps = steps

    async def __aiter__(self) -> AsyncIterator[memoryview]:
        with asking("read", self.meta.key):
            while (chunk := await self._steps.do(lambda: next(self._chunks, None))) is not None:
                yield memoryview(chunk)
