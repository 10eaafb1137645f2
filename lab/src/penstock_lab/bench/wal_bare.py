"""The peer of the WAL's benchmark: a bare asyncio loop which batches records into one writev and one fdatasync.

It is what one would write by hand, well: records of one turn of the loop go to a thread as they are, one system call
writes them into preallocated space, one makes them durable, and one wake-up of the loop answers all. It has no
checksums, no numbers, no segments, no limits, no error handling, and no reader for its files.
"""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

__all__ = ["BareLoop"]

_BUFFERS_MAX: Final = 1024  # of one writev (IOV_MAX)


class BareLoop:
    """Durable appends to one file."""

    def __init__(self, path: Path, reserve_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(1)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._at = 0
        self._reserve_bytes = reserve_bytes
        self._reserved = 0
        self._records: list[bytes] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._is_busy = False
        self._reserve()

    def append(self, record: bytes) -> "asyncio.Future[None]":
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._records.append(record)
        self._waiters.append(waiter)
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._flush)
        return waiter

    async def close(self) -> None:
        await self._loop.run_in_executor(self._pool, os.close, self._fd)
        self._pool.shutdown()

    def _flush(self) -> None:
        records, self._records = self._records, []
        waiters, self._waiters = self._waiters, []
        writing = self._loop.run_in_executor(self._pool, self._write, records)
        writing.add_done_callback(lambda _: self._answer(waiters))

    def _answer(self, waiters: list["asyncio.Future[None]"]) -> None:
        for waiter in waiters:
            waiter.set_result(None)
        if self._records:
            self._flush()
        else:
            self._is_busy = False

    def _write(self, records: list[bytes]) -> None:
        for start in range(0, len(records), _BUFFERS_MAX):
            self._at += os.pwritev(self._fd, records[start : start + _BUFFERS_MAX], self._at)
        os.fdatasync(self._fd)
        if self._at > self._reserved - self._reserve_bytes // 2:
            self._reserve()

    def _reserve(self) -> None:
        self._reserved += self._reserve_bytes
        os.posix_fallocate(self._fd, 0, self._reserved)
        os.fdatasync(self._fd)
