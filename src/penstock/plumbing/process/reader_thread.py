"""Reads of a blocking source, like stdin, for a coroutine.

A read of a pipe or a terminal cannot be interrupted, and asyncio waits for its own threads when a program ends. The
thread here is a daemon: Ctrl-C ends the program while a read is under way. What always holds: items come in order, as
soon as they are read; at most `room` of them wait, by their sizes, and one more.
"""

import asyncio
import io
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Final, Generic, TypeVar

from penstock.kernel.errors import InvalidArgument

__all__ = ["ReaderThread", "head_of", "lines_of", "pieces_of"]

T = TypeVar("T")
PIECE_BYTES: Final = 512 << 10


class ReaderThread(Generic[T]):
    """A thread that reads items and their sizes ahead of a coroutine."""

    def __init__(self, items: Iterator[tuple[T, int]], room: int) -> None:
        self._items = items
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()  # of the next four
        self._ready: list[T] = []
        self._size = 0
        self._is_over = False
        self._failure: Exception | None = None
        self._has_some = asyncio.Event()
        self._has_room = threading.Event()
        threading.Thread(target=self._read, name="penstock reader", daemon=True).start()

    async def take(self) -> list[T]:
        """Return every item that waits, as soon as one does. An empty list is the end.

        An error of the source is raised after the items before it.
        """
        await self._has_some.wait()
        with self._lock:
            taken, self._ready, self._size = self._ready, [], 0
            self._has_room.set()
            if not self._is_over:
                self._has_some.clear()
        if not taken and self._failure is not None:
            raise self._failure
        return taken

    def close(self) -> None:
        """Stop after the read that is under way."""
        with self._lock:
            self._is_over = True
            self._has_room.set()

    def _read(self) -> None:
        try:
            for item, size in self._items:
                if not self._keep(item, size):
                    return
        except Exception as error:
            self._failure = error  # the coroutine raises it
        with self._lock:
            self._is_over = True
        self._wake()

    def _keep(self, item: T, size: int) -> bool:
        """Hand an item over, and wait for room. Return False after `close`."""
        with self._lock:
            if self._is_over:
                return False
            self._ready.append(item)
            self._size += size
            is_first, is_full = len(self._ready) == 1, self._size >= self._room
            if is_full:
                self._has_room.clear()
        if is_first:
            self._wake()
        if is_full:
            self._has_room.wait()
        return True

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, so no coroutine waits
            self._loop.call_soon_threadsafe(self._has_some.set)


def pieces_of(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield the content of a file in pieces, each as soon as it is available, with its length."""
    # A thread that is inside a read of sys.stdin.buffer holds a lock that the interpreter needs to exit.
    descriptor = _descriptor(file)
    while piece := file.read(PIECE_BYTES) if descriptor is None else os.read(descriptor, PIECE_BYTES):
        yield piece, len(piece)


async def head_of(file: IO[bytes], size: int) -> tuple[bytes, ReaderThread[bytes]]:
    """Return the first `size` bytes of a file or a few more, and the thread that reads the rest.

    Fewer bytes are all that the file has.
    """
    pieces = ReaderThread(pieces_of(file), PIECE_BYTES)
    found: list[bytes] = []
    read = 0
    while read < size and (taken := await pieces.take()):
        found += taken
        read += sum(map(len, taken))
    return b"".join(found), pieces


def _descriptor(file: IO[bytes]) -> int | None:
    try:
        return file.fileno()
    except (OSError, io.UnsupportedOperation):
        return None


def lines_of(file: IO[bytes], line_bytes_max: int) -> Iterator[bytes]:
    """Yield the lines of a file with their newlines, each as soon as it is available."""
    rest: list[bytes] = []  # of a line that has no end yet
    size, number = 0, 0
    for piece, _ in pieces_of(file):
        *whole, last = piece.split(b"\n")
        for line in whole:
            number += 1
            yield b"".join([*rest, line, b"\n"]) if rest else line + b"\n"
            rest, size = [], 0
        if last:
            rest.append(last)
            size += len(last)
            if size > line_bytes_max:
                raise InvalidArgument(f"line {number + 1}: more than {line_bytes_max} bytes; expected a newline")
    if rest:
        yield b"".join(rest)
